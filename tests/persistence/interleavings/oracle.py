"""What a session's files hold, read without the code under test: no checksums, no recovery, only JSON and names."""

import json


class Broken(AssertionError):  # noqa: N818
    """Files that no sequence of whole commits explains."""


def item_ids(files):
    """Return the ids of a session's items in the order of their commits: of its newest snapshot, and since then."""
    seq, found = _snapshot(files)
    commits = _commits(files)
    while seq + 1 in commits:
        for record in commits[seq + 1]:
            seq = record["seq"]
            if record["op"] == "add":
                found.append(record["d"]["id"])
            elif record["op"] == "forget":
                found = [item_id for item_id in found if item_id != record["d"]["id"]]
    if beyond := [first for first in commits if first > seq]:
        raise Broken(f"record {seq + 1} is in no file, {min(beyond)} is")
    return tuple(found)


def seqs(files, folder):
    """Return the numbers of the files in a folder, ascending."""
    return sorted(
        int(path.partition("/")[2].partition(".")[0])
        for path in files
        if path.startswith(f"{folder}/")
    )


def _snapshot(files):
    for seq in reversed(seqs(files, "snap")):
        lines = list(map(json.loads, files[f"snap/{seq:020d}.jsonl"].splitlines()))
        if lines[-1] != {"crc": lines[-1]["crc"], "end": len(lines) - 2}:
            raise Broken(f"snapshot {seq} is incomplete")
        return seq, [line["d"]["id"] for line in lines[1:-1]]
    return 0, []


def _commits(files):
    """Return the whole commits by the number of their first record, which two files may hold only if they agree."""
    commits = {}
    for path in sorted(files):
        if path.startswith("log/"):
            for commit in _whole(_records(files[path])):
                known = commits.setdefault(commit[0]["seq"], commit)
                if known != commit:
                    raise Broken(
                        f"two commits begin with record {commit[0]['seq']}: {known} and {commit}"
                    )
    return commits


def _records(data):
    for line in data.split(b"\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            return


def _whole(records):
    commit = []
    for record in records:
        commit.append(record)
        if record["k"] == 0:
            if [earlier["k"] for earlier in commit] != list(range(len(commit)))[::-1]:
                raise Broken(f"a commit is mixed: {commit}")
            yield commit
            commit = []
