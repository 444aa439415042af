"""A tokenizer library that kills its process on some texts, as native code does on some inputs.

Python imports this by itself where its directory is on the path; CRASHING_TOKENIZER_MOMENTS is the
directory of moments.py.
"""

import os
from typing import Any

if "CRASHING_TOKENIZER_MOMENTS" in os.environ:
    import tokenizers

    from tests.pipeline.survival.moments import Moments

    _moments = Moments(os.environ["CRASHING_TOKENIZER_MOMENTS"])
    _encode = tokenizers.Tokenizer.encode

    def _crashing(self: tokenizers.Tokenizer, sequence: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(sequence, str):
            _moments.at("read", sequence)
        return _encode(self, sequence, *rest, **named)

    tokenizers.Tokenizer.encode = _crashing  # type: ignore[method-assign]
