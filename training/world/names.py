"""Invented names: syllables that compose, so that new names can always be drawn.

A name belongs either to the training world or to the held-out world, decided by a checksum of
the name itself, so that no list has to be kept.
"""

import random
import zlib
from dataclasses import dataclass

from training.world.grammar import words

_STARTS = words(
    "Al Bar Bel Bran Cal Cor Dal Del Dor El Fal Far Fen Gal Gar Gor Hal Har Hol Jar Jor Kal Kar "
    "Kel Kor Lan Lar Lin Lor Mal Mar Mel Mor Nal Nor Ol Or Pal Par Pel Quil Ral Ran Rol Sal Sar "
    "Sel Sor Tal Tar Tes Tol Ul Val Var Vel Vor Wal War Wen Yar Zan Zel Zor"
)
_FIRST_ENDS = words("a an ek el en ia ik in is o on us")
_LAST_ENDS = words("aday berg dane dell iver lock mond nick sen ster vane worth")
_TOWN_ENDS = words("bury by dale field ford ham haven holm ley mora stead ton wick")
_RIVER_ENDS = words("ava esk ine isse oon une")
_REGION_ENDS = words("andia aria enia inia onia ovia")
_FIRM_ENDS = words("ano atek co eon ico ona tron")
_FIRM_KINDS = ("Works", "Mills", "Motors", "Press", "Foods", "Glass")
_WATERS = ("Sea", "Lake", "Bay", "Gulf")
_ADJECTIVES = words(
    "Silver Golden Silent Broken Hidden Last Long Lost Red Blue White Dark Cold Empty Quiet Wild"
)
_NOUNS = words(
    "Harbor River Garden Winter Summer Road House Mirror Bridge Forest Island Tower Letter Door "
    "Song Star"
)

HELD_OUT_MODULUS = 8


def is_held_out(name: str) -> bool:
    """Whether `name` belongs to the held-out world (one in eight does)."""
    return zlib.crc32(name.encode()) % HELD_OUT_MODULUS == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Draws names of one world: the held-out one, or the one training sees."""

    held_out: bool

    def _word(self, ends: tuple[str, ...], rng: random.Random) -> str:
        while True:
            word = rng.choice(_STARTS) + rng.choice(ends)
            if is_held_out(word) == self.held_out:
                return word

    def first(self, rng: random.Random) -> str:
        """A given name: one word."""
        return self._word(_FIRST_ENDS, rng)

    def person(self, rng: random.Random) -> str:
        return f"{self.first(rng)} {self._word(_LAST_ENDS, rng)}"

    def town(self, rng: random.Random) -> str:
        return self._word(_TOWN_ENDS, rng)

    def river(self, rng: random.Random) -> str:
        return self._word(_RIVER_ENDS, rng)

    def region(self, rng: random.Random) -> str:
        return self._word(_REGION_ENDS, rng)

    def water(self, rng: random.Random) -> str:
        """A sea, lake, bay or gulf."""
        return f"{self._word(_REGION_ENDS, rng)} {rng.choice(_WATERS)}"

    def mountain(self, rng: random.Random) -> str:
        return f"Mount {self._word(_RIVER_ENDS, rng)}"

    def company(self, rng: random.Random) -> str:
        return f"{self._word(_FIRM_ENDS, rng)} {rng.choice(_FIRM_KINDS)}"

    def book(self, rng: random.Random) -> str:
        """A title: "The Silent Harbor of Velmora" is one place away from every other."""
        title = f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"
        return f"{title} of {self.town(rng)}"
