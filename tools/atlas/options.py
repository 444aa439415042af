"""What AtlasQA was told, checked."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from tools.base import ConfigError

_DTYPES = ("float32", "bfloat16")


class IndexGoneError(Exception):
    """The actors that hold the index died again and again; they may come back later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasOptions:
    """The options of AtlasQA that say how to answer; see there.

    Raises:
        ConfigError: one is out of its range.
    """

    n_context: int
    max_new_tokens: int
    device: str
    dtype: str
    decoder_batch: int
    index_actors: int
    index_num_gpus: float

    def __post_init__(self) -> None:
        for name in ("n_context", "max_new_tokens", "decoder_batch"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("index_actors", "index_num_gpus"):
            check_at_least(name, getattr(self, name), 0)
        if self.dtype == "float16":
            raise ConfigError(
                "QA: dtype is float16, in which the activations of T5 overflow; expected "
                f"{' or '.join(_DTYPES)}"
            )
        if self.dtype not in _DTYPES:
            raise ConfigError(f"QA: dtype is {self.dtype}, expected {' or '.join(_DTYPES)}")
        if self.index_num_gpus and not self.index_actors:
            raise ConfigError("QA: index_num_gpus is for index_actors, of which there are none")

    def version(self) -> str:
        """Those of which the bits of an answer depend, as text.

        How many actors hold the index changes no bit of a score; where they compute may, and so
        may the packages that compute it.

        Raises:
            ConfigError: one of these packages is not installed.
        """
        values = {
            "n_context": self.n_context,
            "max_new_tokens": self.max_new_tokens,
            "device": self.device,
            "dtype": self.dtype,
            "decoder_batch": self.decoder_batch,
            "index_on_gpu": self.index_num_gpus > 0,
            **{package: _package_version(package) for package in ("torch", "transformers")},
        }
        return ":".join(f"{name}={value}" for name, value in values.items())


def _package_version(package: str) -> str:
    try:
        return package_version(package)  # of its metadata: nothing large is imported
    except PackageNotFoundError:
        raise ConfigError(f"QA needs the package {package}, which is not installed") from None


def check_at_least(name: str, value: float, least: int) -> None:
    """Raise a ConfigError unless the option `name` is at least `least`."""
    if not value >= least:  # also when it is NaN
        raise ConfigError(f"QA: {name} is {value}, expected at least {least}")
