"""A dataset to a repository of the Hugging Face Hub: one commit."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub import errors as hub_errors

from pipeline.push.parcel import PUSH_MARK, Parcel, is_shard
from pipeline.push.target import HubRepo
from tools.base import ConfigError, OutputError, one_line

_KIND = "dataset"
_MARK = (
    '{"complete": true, "files": {}}\n'  # as of a place (pipeline.push.store); the Hub has hashes
)
_HTTP_ERROR: type[Exception] = vars(hub_errors)["HTTPError"]  # of what it speaks HTTP with


def push_to_hub(parcel: Parcel, repo: HubRepo, *, private: bool) -> tuple[str, bool]:
    """Makes the repository, new if need be, hold the parcel; its address, and whether it did not.

    The token is found as huggingface_hub finds it (HF_TOKEN, `hf auth login`). Shards of a run in
    a store are fetched to this machine first, all of them.

    Raises:
        ConfigError: the repository is public and `private` is asked for, or holds a file that
            would be replaced and that no push wrote.
        InputError: the parcel cannot be read or changed meanwhile.
        OutputError: the Hub is not reachable, or does not let us.
    """
    # It warns of a commit that would be empty.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    api, name = HfApi(), repo.repo_id
    with _hub_errors(repo, api.endpoint), ExitStack() as files:
        url = api.create_repo(name, repo_type=_KIND, private=private, exist_ok=True)
        before = api.dataset_info(name)
        if private and not before.private:
            raise ConfigError(f"{repo}: is there and is public; make it private there first")
        there = [file.rfilename for file in before.siblings or []]
        theirs = parcel.in_the_way(there) if PUSH_MARK not in there else None
        if theirs is not None:
            raise ConfigError(
                f"{repo}: holds a {theirs} that no push wrote (there is no {PUSH_MARK}); choose a "
                "new repository"
            )
        stale = [file for file in there if is_shard(file) and file not in parcel.names]
        added = [
            CommitOperationAdd(file, str(files.enter_context(parcel.shard(file))))
            for file in parcel.shards
        ]
        added += [
            CommitOperationAdd(file, text.encode())
            for file, text in {**parcel.texts, PUSH_MARK: _MARK}.items()
        ]
        # Hashes are taken and shards uploaded before the last look at the build, so the commit is
        # of one build; and it follows on what was looked at, or the Hub refuses it.
        api.preupload_lfs_files(name, added, repo_type=_KIND, free_memory=False)
        parcel.still_whole()
        after = api.create_commit(
            name,
            [*added, *(CommitOperationDelete(file) for file in stale)],
            commit_message="Push the dataset and its card",
            repo_type=_KIND,
            parent_commit=before.sha,
        )
    return str(url), after.oid != before.sha


@contextmanager
def _hub_errors(repo: HubRepo, endpoint: str) -> Iterator[None]:
    """What went wrong, in one line."""
    try:
        yield
    except hub_errors.HfHubHTTPError as error:
        status, said = error.response.status_code, error.server_message or one_line(error)
        if status == 401:
            why = "the Hub does not know who asks: `hf auth login`, or set HF_TOKEN"
        elif status == 403:
            why = f"the token may not write there: {said}"
        else:
            why = f"the Hub answered {status}: {said}"
        raise OutputError(f"{repo}: cannot be pushed: {why}") from None
    except (_HTTP_ERROR, OSError) as error:
        raise OutputError(
            f"{repo}: {endpoint} cannot be reached: {one_line(error) or type(error).__name__}"
        ) from None
    except (ValueError, RuntimeError) as error:
        cause = error.__cause__ or error
        raise OutputError(f"{repo}: cannot be pushed: {one_line(cause)}") from None
