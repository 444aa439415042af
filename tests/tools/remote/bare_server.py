"""An MCP server without the package: it prints what is no message, and answers what is asked of it.

The input is the JSON of the content it answers with, taken as it is.
"""

import json
import sys

TOOL = {"name": "say", "inputSchema": {"type": "object", "properties": {"what": {}}}}
STARTED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}

print("Starting, one moment", flush=True)
print("[" * 100_000, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    results = {"initialize": json.dumps(STARTED), "tools/list": json.dumps({"tools": [TOOL]})}
    if asked["method"] == "tools/call":
        result = asked["params"]["arguments"]["what"]
    else:
        result = results.get(asked["method"], "")
    body = f'"result": {result}' if result else '"error": {"code": -32601, "message": "what?"}'
    print(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, {body}}}', flush=True)
