"""An MCP server without the package, which starts at once and keeps to little of the protocol.

It prints what is no message. An input that is JSON is the result it answers with, as it is; one
that names an environment variable gets its value; some others are dangerous.
"""

import json
import os
import sys
import time

TOOL = {"name": "say", "inputSchema": {"type": "object", "properties": {"what": {}}}}
STARTED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}


def said(what: str) -> str:
    if what.startswith("{"):
        return what
    if what == "die":
        sys.stderr.write("It was too much.\n")
        os._exit(3)
    if what == "hang":
        time.sleep(600)
    text = "x" * 3_000_000 if what == "babble" else os.environ.get(what, "(not set)")
    text = str(os.getpid()) if what == "pid" else text
    return json.dumps({"content": [{"type": "text", "text": text}]})


if __name__ == "__main__":
    print("Starting, one moment", flush=True)
    print("[" * 100_000, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        results = {"initialize": json.dumps(STARTED), "tools/list": json.dumps({"tools": [TOOL]})}
        if asked["method"] == "tools/call":
            result = said(asked["params"]["arguments"]["what"])
        else:
            result = results.get(asked["method"], "")
        body = f'"result": {result}' if result else '"error": {"code": -32601, "message": "what?"}'
        print(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, {body}}}', flush=True)
