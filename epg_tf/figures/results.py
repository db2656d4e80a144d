"""Reads the data set of kept results, `results/` of a checkout: one archive of records a family.

A record is the folder of a run or the summary of an evaluation, as its command wrote it, with the
names of settings and columns of the version that did.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tarfile
import tempfile
from pathlib import Path

from epg_tf.core.errors import RecordError

RECORDS = "records"
"""Folder of the archives in a data set."""


@functools.cache
def unpacked(folder: Path) -> Path:
    """Returns a folder with all records of a data set; it is removed when the process ends.

    Args:
      folder: A data set, or any other folder, which is returned as it is.

    Raises:
      RecordError: An archive is damaged, or holds a file that another one holds, too.
    """
    archives = sorted((folder / RECORDS).glob("*.tar.xz"))
    if not archives:
        return folder
    target = Path(tempfile.mkdtemp(prefix="epg_tf-results-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for path in archives:
        try:
            with tarfile.open(path, "r:xz") as archive:
                for name in archive.getnames():
                    if (target / name).is_file():
                        raise RecordError(f"{path}: another archive holds {name}, too; rename one")
                archive.extractall(target, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise RecordError(f"{path}: the archive cannot be read: {error}") from error
    return target
