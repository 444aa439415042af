"""Plain text from the bytes of tokens, piece by piece, up to the first stop text."""

import codecs
from collections.abc import Sequence


class PlainText:
    """Text that grows by bytes and is given out as soon as nothing can change it any more.

    What is not UTF-8 becomes U+FFFD. Held back are an unfinished character and what may be the
    beginning of a stop text. The text ends before the stop text that is complete first; of several
    that end with the same character, before the one that begins first.

    Attributes:
        stopped: whether a stop text was found; nothing is added after that.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = tuple(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._num_given = 0
        self.stopped = False

    def __len__(self) -> int:
        """Characters of the text so far, those that are held back among them."""
        return self._num_given + len(self._held)

    def add(self, piece: bytes) -> str:
        """What can be given out once `piece` is there."""
        return self._given(self._decoder.decode(piece), final=False)

    def end(self) -> str:
        """What is left, as no more will come."""
        return self._given(self._decoder.decode(b"", final=True), final=True)

    def _given(self, new: str, *, final: bool) -> str:
        if self.stopped:
            return ""
        text = self._held + new
        cut = self._first_stop(text)
        self.stopped = cut is not None
        if cut is None:
            cut = len(text) if final else self._certain(text)
        self._held = "" if self.stopped else text[cut:]
        self._num_given += cut
        return text[:cut]

    def _first_stop(self, text: str) -> int | None:
        """Where the stop text begins that ends first; None where there is none."""
        found = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stop]
        return min(((end, at) for end, at in found if at >= 0), default=(0, None))[1]

    def _certain(self, text: str) -> int:
        """How much of `text` is before everything that may be the beginning of a stop text."""
        longest = max(map(len, self._stop), default=1) - 1
        for at in range(max(0, len(text) - longest), len(text)):
            if any(stop.startswith(text[at:]) for stop in self._stop):
                return at
        return len(text)
