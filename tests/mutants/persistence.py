"""Faults of the session log: its disk, its object store, its snapshots, its repair."""

from __future__ import annotations

from tests.mutants.mutant import Change, Mutant, mutant

DISK = "tests/simulation/test_simulation.py", "-k", "disk"
OBJECTS = "tests/simulation/test_simulation.py", "-k", "objects"

LOCAL = "persistence/local.py"
COMMIT = "persistence/commit.py"
CHECKPOINT = "persistence/checkpoint.py"
TAIL = "persistence/tail.py"
RECOVERY = "persistence/recovery.py"
STORE = "persistence/objects.py"
INDEXES = "persistence/indexes.py"
LOG = "persistence/log.py"

_APPENDED = """            self._write_all(descriptor, data)
            self._disk.sync(descriptor)
            if is_new:
                self._sync_folders(folder)
"""

MUTANTS = (
    mutant(
        "a commit is acknowledged before its sync",
        LOCAL,
        _APPENDED,
        _APPENDED.replace("            self._disk.sync(descriptor)\n", ""),
        *DISK,
    ),
    mutant(
        "the sync is before the write",
        LOCAL,
        _APPENDED,
        _APPENDED.replace("            self._disk.sync(descriptor)\n", "").replace(
            "            self._write_all", "            self._disk.sync(descriptor)\n            self._write_all"
        ),
        *DISK,
    ),
    mutant(
        "the folder of a new segment is not synced",
        LOCAL,
        _APPENDED,
        _APPENDED.replace("self._sync_folders(folder)", "pass"),
        *DISK,
    ),
    mutant(
        "what a killed writer left is not synced",
        LOCAL,
        "        if size != self._synced.get(path, 0):\n",
        "        if False:\n",
        *DISK,
    ),
    mutant(
        "a failed append is synced again, not written again",
        LOCAL,
        "                self._disk.truncate(descriptor, size)\n                self._disk.sync(descriptor)\n",
        "                self._disk.sync(descriptor)\n                self._synced[path] = size + len(data)\n"
        "                return\n",
        *DISK,
    ),
    mutant(
        "a file that is written whole is not synced",
        LOCAL,
        "                    self._write_all(descriptor, chunk)\n                self._disk.sync(descriptor)\n",
        "                    self._write_all(descriptor, chunk)\n",
        *DISK,
    ),
    mutant(
        "the name of a file that is written whole is not synced",
        LOCAL,
        "        self._disk.sync_folder(path.rpartition(\"/\")[0])\n"
        "        self._disk.sync_folder(self._folder)  # another may have made the folder, and been killed\n",
        "",
        *DISK,
    ),
    mutant(
        "a cut is not synced",
        LOCAL,
        "            self._disk.truncate(descriptor, size)\n            self._disk.sync(descriptor)\n        finally:\n"
        "            self._disk.close(descriptor)\n",
        "            self._disk.truncate(descriptor, size)\n        finally:\n            self._disk.close(descriptor)\n",
        *DISK,
    ),
    mutant(
        "what is deleted is not synced",
        LOCAL,
        "            self._disk.unlink(path)\n            self._disk.sync_folder(path.rpartition(\"/\")[0])\n",
        "            self._disk.unlink(path)\n",
        *DISK,
    ),
    mutant(
        "half-written files stay",
        LOCAL,
        "            self._sweep(folder, min_age_s=-math.inf)\n",
        "",
        *DISK,
    ),
    mutant(
        "others' commits are not synced before they are followed",
        LOCAL,
        "        self._disk.sync(self._kept_open(path, os.O_RDWR | os.O_APPEND))\n",
        "        self._kept_open(path, os.O_RDWR | os.O_APPEND)\n",
        *DISK,
    ),
    mutant(
        "a short write counts as a whole one",
        LOCAL,
        "            left = left[written:]\n",
        "            break\n",
        *DISK,
    ),
    mutant(
        "the lock's file may be another by now",
        LOCAL,
        "        return self._disk.is_at(descriptor, path)\n",
        "        return True\n",
        "tests/persistence/test_local.py",
    ),
    mutant("a writer does not lock", COMMIT, "    yield Lock(create=head.seq == 0)\n", "    yield from ()\n", *DISK),
    mutant(
        "a writer looks before it locks",
        COMMIT,
        "    yield Lock(create=head.seq == 0)\n    sight = yield from look(head, snapshot=snapshot)\n",
        "    sight = yield from look(head, snapshot=snapshot)\n    yield Lock(create=head.seq == 0)\n",
        *DISK,
    ),
    mutant(
        "a torn tail stays",
        COMMIT,
        "    return tail.head, _cut(tail.head, tail.torn) if tail.torn else []\n",
        "    return tail.head, []\n",
        *DISK,
    ),
    mutant(
        "a long text is stored after its commit",
        COMMIT,
        "    yield from _store_blobs(commit)\n    yield from steps\n    return after\n",
        "    yield from steps\n    yield from _store_blobs(commit)\n    return after\n",
        *DISK,
    ),
    mutant(
        "a long text is stored after its commit, on an object store",
        COMMIT,
        "    yield from _store_blobs(commit)\n    yield from _cut(head, torn) if torn else ()\n    path = log_file(head.seq + 1)\n"
        "    try:\n        yield Create(path, commit.data)\n",
        "    yield from _cut(head, torn) if torn else ()\n    path = log_file(head.seq + 1)\n"
        "    try:\n        yield Create(path, commit.data)\n        yield from _store_blobs(commit)\n",
        *OBJECTS,
    ),
    mutant(
        "a commit does not look whether the log moved",
        COMMIT,
        "    if max(sight.segments, default=0) > head.seq + 1 or max(sight.snapshots, default=0) > head.seq:\n"
        "        raise conflict(head)\n",
        "",
        *DISK,
    ),
    mutant(
        "another's commit in the tail is no conflict",
        COMMIT,
        "    if any(record.txn != txn for record in tail.records):\n        raise conflict(head)\n",
        "",
        *DISK,
    ),
    mutant(
        "a missing newline is written with the next commit",
        COMMIT,
        '        steps.append(Append(log_file(head.segment), head.size, b"\\n"))\n'
        "        head = replace(head, size=head.size + 1, whole=True)\n"
        "    steps.append(Append(log_file(head.segment), head.size, commit.data))\n"
        "    return steps, _after(head, commit, head.size + len(commit.data))\n",
        '        steps.append(Append(log_file(head.segment), head.size, b"\\n" + commit.data))\n'
        "        head = replace(head, size=head.size + 1, whole=True)\n"
        "    else:\n"
        "        steps.append(Append(log_file(head.segment), head.size, commit.data))\n"
        "    return steps, _after(head, commit, head.size + len(commit.data))\n",
        *DISK,
    ),
    mutant(
        "a commit whose answer was lost is committed again",
        COMMIT,
        '    txn = "" if unsettled is None else unsettled.txn\n',
        '    txn = ""\n',
        *DISK,
    ),
    mutant(
        "the next segment follows one that is in the cache alone",
        COMMIT,
        "        steps += [Sync(log_file(head.segment))] if before else []\n",
        "",
        *DISK,
    ),
    mutant(
        "the texts of a refused commit stay",
        COMMIT,
        "    for name in commit.blobs:\n        yield Delete(blob_file(name), at_once=True)\n",
        "    yield from ()\n",
        *OBJECTS,
    ),
    mutant(
        "a commit overwrites another's",
        STORE,
        '            return self._put(path, data, mode="create")\n',
        "            return self._put(path, data)\n",
        *OBJECTS,
    ),
    mutant(
        "any failure to create counts as another's commit",
        STORE,
        "                if stored.startswith(data):  # another may have rolled it up with what follows already\n"
        "                    return None\n",
        "",
        *OBJECTS,
    ),
    mutant(
        "a commit that is not stored is acknowledged",
        STORE,
        "                except FileNotFoundError:\n                    continue\n",
        "                except FileNotFoundError:\n                    return None\n",
        *OBJECTS,
    ),
    mutant(
        "old files are deleted at once",
        STORE,
        "            if at_once or self._age_s(path) >= self._retention_s:\n",
        "            if True:\n",
        *OBJECTS,
    ),
    mutant(
        "the log goes before its snapshot",
        CHECKPOINT,
        "    try:\n        yield from (Publish(path, draft) for path, draft in drafts)\n",
        "    for first in segments((yield List(LOG))):\n        yield Delete(log_file(first), at_once=True)\n"
        "    try:\n        yield from (Publish(path, draft) for path, draft in drafts)\n",
        *DISK,
    ),
    mutant(
        "the archive is stored after its snapshot",
        CHECKPOINT,
        "    for path, each in {**files, snapshot_file(seq): lines}.items():\n",
        "    for path, each in {snapshot_file(seq): lines, **files}.items():\n",
        *DISK,
    ),
    mutant(
        "pruning is off by one segment",
        CHECKPOINT,
        "    unneeded = [first for first, following in pairwise(segments) if following <= before + 1]\n",
        "    unneeded = [first for first, following in pairwise(segments) if first <= before + 1]\n",
        *DISK,
    ),
    mutant(
        "pruning leaves no second snapshot",
        CHECKPOINT,
        "        *(Delete(snapshot_file(seq)) for seq in snapshots if seq < newest and seq != before),\n",
        "        *(Delete(snapshot_file(seq)) for seq in snapshots if seq < newest),\n",
        "tests/persistence/test_log.py",
        "tests/persistence/test_recovery.py",
    ),
    mutant(
        "a snapshot replaces a newer one",
        CHECKPOINT,
        "    if not (yield from _is_newest(head, seq)):\n        return False\n    files",
        "    files",
        *DISK,
    ),
    mutant(
        "forgetting deletes the log before the snapshot is stored",
        CHECKPOINT,
        '    yield Write(PURGE, [b"unfinished"])\n',
        '    yield Write(PURGE, [b"unfinished"])\n    for first in segments((yield List(LOG))):\n'
        "        yield Delete(log_file(first), at_once=True)\n",
        *DISK,
    ),
    mutant(
        "the purge marker goes before the log segments",
        CHECKPOINT,
        "    for first in segments((yield List(LOG))):\n        if first <= head.seq:\n",
        "    yield Delete(PURGE, at_once=True)\n"
        "    for first in segments((yield List(LOG))):\n        if first <= head.seq:\n",
        *DISK,
    ),
    mutant(
        "forgetting leaves the old archives",
        CHECKPOINT,
        "        if seq < head.seq or (seq == head.seq and archived is None):\n",
        "        if False:\n",
        *DISK,
    ),
    mutant(
        "forgetting leaves the old snapshots",
        CHECKPOINT,
        "        if seq < head.seq:\n            yield Delete(snapshot_file(seq), at_once=True)\n",
        "        pass\n",
        *DISK,
    ),
    mutant(
        "forgetting leaves the quarantine",
        CHECKPOINT,
        "    for folder in (QUARANTINE, INDEX):  #",
        "    for folder in (INDEX,):  #",
        *DISK,
    ),
    mutant(
        "forgetting leaves the indexes",
        CHECKPOINT,
        "    for folder in (QUARANTINE, INDEX):  #",
        "    for folder in (QUARANTINE,):  #",
        *DISK,
    ),
    mutant(
        "forgetting leaves the long texts",
        CHECKPOINT,
        "        yield Delete(blob_file(name), at_once=locks or is_blob_until(name, head.seq))\n",
        "        pass\n",
        *DISK,
    ),
    mutant(
        "forgetting leaves the log",
        CHECKPOINT,
        "            yield Delete(log_file(first), at_once=True) if locks else _blank(first)\n",
        "            pass\n",
        *DISK,
    ),
    mutant(
        "forgetting frees the names of segments where nothing locks",
        CHECKPOINT,
        "            yield Delete(log_file(first), at_once=True) if locks else _blank(first)\n",
        "            yield Delete(log_file(first), at_once=True)\n",
        *OBJECTS,
    ),
    mutant(
        "forgetting does not look at the log's end",
        CHECKPOINT,
        "    check_last(head, (yield from look(head)))\n",
        "    check_same_log(head, (yield from look(head)))\n",
        *DISK,
    ),
    mutant(
        "a snapshot brings back what was forgotten",
        CHECKPOINT,
        "    if was_purged or was_deleted:  # where",
        "    if False:  # where",
        *OBJECTS,
    ),
    mutant(
        "small segments are deleted before the one in their place is stored",
        CHECKPOINT,
        '    yield Write(log_file(firsts[0]), [b"\\n".join([*lines, b""])])\n',
        "    for first in firsts:\n        yield Delete(log_file(first), at_once=True)\n"
        '    yield Write(log_file(firsts[0]), [b"\\n".join([*lines, b""])])\n',
        *OBJECTS,
    ),
    mutant(
        "segments are joined by their names alone",
        CHECKPOINT,
        '        lines += part.removesuffix(b"\\n").split(b"\\n")[firsts[0] + len(lines) - first :]\n',
        '        lines += part.removesuffix(b"\\n").split(b"\\n")\n',
        *OBJECTS,
    ),
    mutant(
        "joined segments bring back what was forgotten",
        CHECKPOINT,
        "        yield _blank(firsts[0])  # what was forgotten meanwhile must not come back\n",
        "        pass\n",
        *OBJECTS,
    ),
    mutant(
        "one NUL counts as a torn tail",
        TAIL,
        "        (begin != commit_start and begin % _SECTOR_BYTES) or end % _SECTOR_BYTES for begin, end in holes\n",
        "        end - begin < 1 for begin, end in holes\n",
        "tests/persistence/test_recovery.py",
    ),
    mutant(
        "half a commit is shown",
        TAIL,
        "        if record.k == 0:\n            committed, began",
        "        if True:\n            committed, began",
        *DISK,
    ),
    mutant(
        "a commit may begin in the middle of another",
        TAIL,
        "    if (record.k, record.txn) != (before.k - 1, before.txn):\n",
        "    if False:\n",
        "tests/persistence/test_recovery.py",
        "tests/persistence/test_log.py",
    ),
    mutant(
        "snapshots are listed before the log",
        RECOVERY,
        "        log = yield List(LOG)\n        snapshots = numbers((yield List(SNAP)))\n        try:\n",
        "        snapshots = numbers((yield List(SNAP)))\n        log = yield List(LOG)\n        try:\n",
        *OBJECTS,
    ),
    mutant(
        "a segment that was emptied meanwhile is the end of the log",
        RECOVERY,
        "    if walk.met_blank and numbers((yield List(SNAP))) != [*snapshots]:\n",
        "    if False:\n",
        *OBJECTS,
    ),
    mutant(
        "a log that ends before its snapshot is whole",
        RECOVERY,
        "    if snapshots and seq < snapshots[-1]:\n",
        "    if False:\n",
        "tests/persistence/test_recovery.py",
        "tests/persistence/damage/test_bit_flips.py",
    ),
    mutant(
        "an unfinished forgetting is not noticed",
        RECOVERY,
        "    has_leftovers = bool(purged) and (yield from is_purge_unfinished())\n",
        "    has_leftovers = False\n",
        *DISK,
    ),
    mutant(
        "an index is stored without looking for what was forgotten",
        INDEXES,
        "        return newest in (0, *sound) or (yield from purged_by(newest)) <= seq\n",
        "        return True\n",
        *DISK,
    ),
    mutant(
        "an index that is no longer welcome stays",
        INDEXES,
        "    if not is_clean:\n        yield Delete(path, at_once=True)\n",
        "",
        *OBJECTS,
    ),
    mutant(
        "an index of another commit is used",
        INDEXES,
        "    if fields != stated or type(header) is not dict:\n",
        "    if type(header) is not dict:\n",
        "tests/persistence/test_indexes.py",
    ),
    Mutant(
        "the name of a commit is free while another wants it",
        (
            Change(STORE, "            if at_once or self._age_s(path) >= self._retention_s:\n", "            if True:\n"),
            Change(COMMIT, "    if not (yield from _is_still_there(head)):\n", "    if False:\n"),
        ),
        OBJECTS,
    ),
)
