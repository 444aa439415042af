"""All that a finished reproduction found, from what its steps wrote."""

from collections.abc import Callable

from training.benchmarks.world import WORLD_BENCHMARKS
from training.evaluate.results import RESULTS, read_results
from training.reproduce.about import about
from training.reproduce.claims import claims
from training.reproduce.config import ReproduceConfig
from training.reproduce.gather import calls_by_gain, gather
from training.reproduce.plan import Places
from training.reproduce.tell import Reproduced

# Facts and questions are what T-REx and WebQS ask for.
_TABLE_9 = ("world_facts", "world_questions")
_CALLS_OF_A_TOOL = 3


def findings(
    config: ReproduceConfig,
    *,
    seconds: float,
    command: str,
    has_samples: bool,
    on_size: Callable[[str], None],
) -> Reproduced:
    """What is told of a reproduction whose steps ran for `seconds`.

    Raises:
        InputError: what a step wrote is missing or torn.
    """
    places = Places(config.out)
    sizes = gather(config, on_size=on_size)
    in_world = [each for each in config.benchmarks if each in WORLD_BENCHMARKS]
    table_9 = [each for each in _TABLE_9 if each in in_world] or in_world[:1]
    return Reproduced(
        command=command,
        seed=config.seed,
        seconds=seconds,
        documents=config.documents,
        about=about(),
        sizes=sizes,
        table_9=table_9,
        benchmarks=in_world,
        claims=claims(sizes, in_world, table_9, seed=config.seed),
        calls=calls_by_gain(places.run(config.largest), each=_CALLS_OF_A_TOOL),
        samples=read_results(places.samples / RESULTS) if has_samples else None,
    )
