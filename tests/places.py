"""Places where sessions are kept, a folder or a filesystem of objects, and their files as bytes."""

from pathlib import Path

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

_FILLED = {}


def files_in(place, below=""):
    """Return all files below a folder of a place by their paths from there."""
    if isinstance(place, str | Path):
        root = Path(place, below)
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
    folder = f"/{below}/" if below else "/"
    return {path.removeprefix(folder): place.cat_file(path) for path in place.find(folder)}


def put(place, files, below=""):
    """Store files below a folder of a place, and delete those that have no bytes."""
    for path, data in files.items():
        if not isinstance(place, str | Path):
            name = f"/{Path(below, path).as_posix()}"
            place.rm_file(name) if data is None else place.pipe_file(name, data)
            continue
        file = Path(place, below, path)
        if data is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def in_memory(files, below="default/s"):
    """Return a filesystem of objects that holds the files of a session."""
    filesystem = IsolatedMemoryFileSystem()
    put(filesystem, files, below)
    return filesystem


async def fill_once(place, fill):
    """Fill an empty place: the first of its kind by the function, and later ones with copies of the same files."""
    key = (fill, type(place))
    if key in _FILLED:
        put(place, _FILLED[key])
    else:
        await fill(place)
        _FILLED[key] = files_in(place)
