"""A scene without Ray, where nothing dies: what every disturbed run is compared with."""

import shutil

from pipeline.config import load_config
from tests.pipeline.plain_run import plainly_annotated
from tests.pipeline.survival.scenes import Scene, Undisturbed


def undisturbed(scene: Scene) -> Undisturbed:
    """The unit files and the work of a scene's run where nothing dies; leaves the scene as new."""
    scene.heal()
    place = scene.moments.with_name("plain")
    units = plainly_annotated(load_config(scene.config_path, run=place))
    found = Undisturbed(units=units, work=scene.work())
    shutil.rmtree(str(place))
    for path in scene.moments.iterdir():
        path.unlink()
    return found
