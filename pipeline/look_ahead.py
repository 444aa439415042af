"""Calls whose input the model can only have read further on in the text (Appendix A.1).

Of the calls of MT the paper removes "those where the input to the MT tool appears after the API
call but not before it": while a text is generated, nothing stands after a call yet.
"""

import unicodedata
from collections.abc import Iterable

from pipeline.config import MT
from tools.calls import ApiCall

_QUOTES = "\"'` \u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u300c\u300d\u300e\u300f"
LOOKS_AHEAD = "looks_ahead"  # a candidate's `dropped`


def looking_ahead(calls: Iterable[ApiCall], text: str, byte_offset: int) -> set[ApiCall]:
    """Those calls of MT at `byte_offset` of `text` whose input stands after it and not before it.

    White space, case, compatibility forms of characters (Unicode NFKC) and quotes around the
    input, which MT does not translate, make no difference. An input that begins before the call
    and ends after it stands on neither side.
    """
    filtered = [call for call in calls if call.tool == MT]
    if not filtered:
        return set()
    data = text.encode()
    before, after = _folded(data[:byte_offset].decode()), _folded(data[byte_offset:].decode())
    asked = {call: _folded(call.input).strip(_QUOTES) for call in filtered}
    return {call for call, phrase in asked.items() if phrase in after and phrase not in before}


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
