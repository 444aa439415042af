"""A built dataset with its card, where others find it: the Hub, a store, a directory."""

from pipeline.push.push import Chosen, Pushed, push
from pipeline.push.target import HubRepo, push_target

__all__ = ["Chosen", "HubRepo", "Pushed", "push", "push_target"]
