"""What fills the slots of a template inside one document: drawn on first use, then kept."""

import datetime as dt
import random
from collections.abc import Callable

from training.world.grammar import finetuning_forms, forms, words
from training.world.names import Names

ITEMS = words(
    "apple book bottle brick candle card chair coat coin cup egg flower hat lamp letter map melon "
    "pear pen pencil plate pot rose seed shirt stamp stone ticket toy tree"
)
PLACES = words("bakery club farm library market mill museum school shop station theater inn")
TRADES = words("baker doctor farmer gardener pilot potter sailor tailor teacher writer")
BOXES = words("basket box crate room drawer store")
MONTHS = words(
    "January February March April May June July August September October November December"
)
WEEKDAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")


class Slots:
    """The fillings of one document. `today` is the date its page was put online.

    `finetuning`: the document is one to finetune on, which has more forms.
    """

    def __init__(
        self, names: Names, rng: random.Random, today: dt.date, *, finetuning: bool = False
    ) -> None:
        self.names, self.rng, self.today, self._finetuning = names, rng, today, finetuning
        self._known: dict[str, str] = {}
        self._draw: dict[str, Callable[[], str]] = {
            "who": self._someone,
            "who2": self._someone,
            "town": lambda: names.town(rng),
            "town2": lambda: names.town(rng),
            "item": lambda: rng.choice(ITEMS),
            "items": lambda: f"{self.fill('item')}s",
            "place": lambda: rng.choice(PLACES),
            "place3": lambda: rng.choice(("spring", "autumn", "town")),
            "places": lambda: rng.choice(("farms", "shops", "schools", "clubs", "rooms")),
            "box": lambda: rng.choice(BOXES),
            "month2": lambda: rng.choice(MONTHS),
            "day2": lambda: str(rng.randint(1, 28)),
            "year2": lambda: str(rng.randint(1750, 1994)),
            "weekday": lambda: WEEKDAYS[today.weekday()],
            "month": lambda: MONTHS[today.month - 1],
            "day": lambda: str(today.day),
            "year": lambda: str(today.year),
        }

    def _someone(self) -> str:
        if self.rng.random() < 0.5:
            return self.names.first(self.rng)
        return f"the {self.rng.choice(TRADES)}"

    def forms(self, section: str, *, held_out: bool) -> tuple[str, ...]:
        """The templates that a sentence of the document may have."""
        known = forms(section, held_out=held_out)
        return known + finetuning_forms(section) if self._finetuning and not held_out else known

    def fill(self, slot: str) -> str:
        """The text of `slot`, the same each time; numbers {n}, {n2} are drawn afresh."""
        if slot in ("n", "n2"):
            return str(self.rng.randint(2, 99))
        if slot not in self._known:
            self._known[slot] = self._draw[slot]()
        return self._known[slot]

    def set(self, **fillings: str) -> None:
        """Puts fillings in place, over earlier ones."""
        self._known.update(fillings)
