"""Images are not trusted: reading them runs no program and loads no pickle."""

import io
import pickle
import subprocess
import sys

import h5py
import numpy as np
from PIL import Image

from hvd_gan.data.decoding import EXTENSIONS
from tests.data import zoo

# Python itself reports what it is asked to do.
READ = """
import sys
from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import Unreadable, open_source
from hvd_gan.data.sources import arrays, folder  # Their imports ask for the kind of processor.

forbidden = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.",
             "socket.connect", "shutil.", "os.remove", "os.rename")

def watch(event, arguments):
    if event.startswith(forbidden):
        print("FORBIDDEN", event, arguments, flush=True)

def read(source):
    found = 0
    for index in range(len(source)):
        try:
            source.read(index)
            found += 1
        except Unreadable:
            pass
    return found

def opened(**settings):
    return open_source(DataSettings(held_out=0, **settings), "train")

sys.addaudithook(watch)
print("read", read(opened(path=sys.argv[1])))
for path in sys.argv[2:]:
    try:
        print("read", read(opened(source="arrays", path=path)))
    except ConfigError as error:
        print("refused", error)
"""

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


class Trap:
    def __reduce__(self):
        return (print, ("FORBIDDEN a pickle was loaded",))


def test_reading_runs_no_program_and_loads_no_pickle(tmp_path):
    images = tmp_path / "images"
    zoo.fill(images)
    zoo.fill_odd(images / "odd")
    for suffix in EXTENSIONS:
        (images / f"eps.{suffix}").write_bytes(EPS)
        (images / f"pickle.{suffix}").write_bytes(pickle.dumps(Trap()))
        for kind in ("PPM", "TGA", "ICNS", "JPEG2000", "PDF", "XBM"):
            buffer = io.BytesIO()
            mode = "1" if kind == "XBM" else "RGB"
            Image.new(mode, (16, 16)).save(buffer, kind)
            (images / f"{kind}.{suffix}").write_bytes(buffer.getvalue())
    arrays = [tmp_path / name for name in ("a.npy", "b.npz", "c.npy", "d.h5", "e.npy")]
    np.save(arrays[0], np.array([Trap()], object), allow_pickle=True)
    np.savez(arrays[1], np.array([Trap()], object))
    arrays[2].write_bytes(pickle.dumps(Trap()))
    with h5py.File(arrays[3], "w") as file:
        file["a"] = np.array([np.void(pickle.dumps(Trap()))])
    np.save(arrays[4], np.zeros((2, 8, 8), np.uint8))
    done = subprocess.run(
        [sys.executable, "-c", READ, images, *arrays], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert "FORBIDDEN" not in done.stdout
    # The eight odd images alone.
    assert lines[0] == "read 8"
    assert [line.split()[0] for line in lines[1:]] == ["refused"] * 4 + ["read"]
