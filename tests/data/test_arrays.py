"""Images in .npy, .npz and HDF5 files: read by number, refused with one line where they cannot."""

import concurrent.futures
import os
import pickle
import tracemalloc

import h5py
import numpy as np
import pytest

from hvd_gan.config import DataSettings
from hvd_gan.config_base import ConfigError
from hvd_gan.data.source import Unreadable, open_source

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (7, 5, 6, 3), np.uint8)


def write(folder, kind, array):
    path = folder / f"images{kind}"
    if kind == ".npy":
        np.save(path, array)
    elif kind == ".npz":
        np.savez(path, labels=np.arange(3), faces=array)
    else:
        with h5py.File(path, "w") as file:
            file["labels"] = np.arange(3)
            file.create_dataset("more/faces", data=array, chunks=True, compression="gzip")
    return path


def opened(path, split="train", held_out=0.0):
    names = {".npz": "faces", ".h5": "more/faces", ".hdf5": "/more/faces"}
    settings = DataSettings(
        source="arrays", path=path, dataset=names.get(path.suffix), held_out=held_out
    )
    return open_source(settings, split)


def refused(path, dataset=None, **more):
    with pytest.raises(ConfigError) as caught:
        open_source(DataSettings(source="arrays", path=path, dataset=dataset, **more), "train")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", [".npy", ".npz", ".h5", ".hdf5"])
@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, ">f8"])
def test_every_kind_of_array_is_read_as_rgb_bytes(tmp_path, kind, channels, dtype):
    array = BYTES[..., 0] if channels is None else BYTES[..., :channels]
    stored = array if dtype is np.uint8 else (array / 255).astype(dtype)
    source = opened(write(tmp_path, kind, stored))
    assert len(source) == 7
    for index in range(7):
        image = source.read(index)
        assert image.dtype == np.uint8 and image.shape == (5, 6, 3)
        gray = array[index].reshape(5, 6, -1)
        np.testing.assert_array_equal(image, np.broadcast_to(gray, (5, 6, 3)))


def test_an_array_in_column_order_is_refused_with_its_cure(tmp_path):
    np.save(tmp_path / "images.npy", np.asfortranarray(BYTES))
    assert "numpy.ascontiguousarray(array)" in refused(tmp_path / "images.npy")


@pytest.mark.parametrize("kind", [".npy", ".npz", ".h5"])
def test_the_file_is_not_loaded_as_a_whole(tmp_path, kind):
    path = write(tmp_path, kind, np.zeros((400, 100, 100, 3), np.uint8))
    tracemalloc.start()
    source = opened(path)
    source.read(399)
    source.fingerprint()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3_000_000


@pytest.mark.parametrize("kind", [".npy", ".npz", ".h5"])
def test_many_threads_read_what_one_reads(tmp_path, kind):
    array = np.random.default_rng(1).integers(0, 256, (60, 20, 20, 3), np.uint8)
    source = opened(write(tmp_path, kind, array))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(source.read, [*range(60)] * 5))
    np.testing.assert_array_equal(np.array(found), np.concatenate([array] * 5))


def test_the_splits_share_no_image_and_stay_when_images_are_appended(tmp_path):
    write(tmp_path, ".npy", np.zeros((2000, 1, 1), np.uint8))
    sides = [opened(tmp_path / "images.npy", split, 0.1) for split in ("train", "held_out")]
    names = [{side.name(index) for index in range(len(side))} for side in sides]
    assert not names[0] & names[1] and len(names[0] | names[1]) == 2000
    assert 140 < len(names[1]) < 260
    write(tmp_path, ".npy", np.zeros((3000, 1, 1), np.uint8))
    longer = opened(tmp_path / "images.npy", "held_out", 0.1)
    later = {longer.name(index) for index in range(len(longer))}
    assert names[1] == {name for name in later if int(name.split()[1]) < 2000}


def test_both_sides_of_two_images_get_one(tmp_path):
    path = write(tmp_path, ".npy", BYTES[:2])
    assert [len(opened(path, split, 0.01)) for split in ("train", "held_out")] == [1, 1]
    assert "none is left to train on" in refused(path, held_out=1.0)
    path = write(tmp_path, ".npy", BYTES[:1])
    assert [len(opened(path, split, 0.99)) for split in ("train", "held_out")] == [1, 0]


def test_the_fingerprint_is_of_the_content_alone(tmp_path):
    one = opened(write(tmp_path, ".npy", BYTES), held_out=0.3)
    other = opened(write(tmp_path, ".h5", BYTES), held_out=0.3)
    changed = opened(write(tmp_path, ".npz", 255 - BYTES), held_out=0.3)
    held_out = opened(tmp_path / "images.npy", "held_out", 0.3)
    assert one.fingerprint() == other.fingerprint()
    assert len({s.fingerprint() for s in (one, changed, held_out)}) == 3


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan, np.inf])
def test_an_image_with_values_outside_0_to_1_is_unreadable(tmp_path, value):
    array = np.full((3, 4, 4), 0.5, np.float32)
    array[1, 2, 2] = value
    source = opened(write(tmp_path, ".npy", array))
    source.read(0)
    with pytest.raises(Unreadable, match=r"image 1: its values, .* lie outside 0 to 1"):
        source.read(1)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((3, 3, 8, 8), np.uint8), "np.moveaxis(array, 1, -1)"),
        (np.zeros((3, 8, 8, 4), np.uint8), "an array [3, 8, 8, 4]; [n, height, width]"),
        (np.zeros((8, 8), np.uint8), "an array [8, 8]; [n, height, width]"),
        (np.zeros((0, 8, 8), np.uint8), "an array [0, 8, 8], without an image"),
        (np.zeros((3, 0, 8), np.uint8), "without an image"),
        (np.zeros((3, 8, 8), np.int64), "int64 values; uint8, or floats in [0, 1], are read"),
        (np.zeros((3, 8, 8), bool), "bool values"),
    ],
)
@pytest.mark.parametrize("kind", [".npy", ".npz", ".h5"])
def test_arrays_that_are_no_images_are_refused(tmp_path, kind, array, said):
    if kind == ".h5":
        path = tmp_path / "images.h5"
        with h5py.File(path, "w") as file:
            file["faces"] = array
    else:
        path = write(tmp_path, kind, array)
    assert said in refused(path, None if kind == ".npy" else "faces")


class Trap:
    """Unpickling it would be noticed."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_objects_and_pickles_are_refused_unopened(tmp_path):
    objects = np.array([Trap(), Trap()], object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    assert "Python objects" in refused(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", faces=objects)
    assert "Python objects" in refused(tmp_path / "b.npz")
    (tmp_path / "c.npy").write_bytes(pickle.dumps(Trap()))
    assert "cannot be read" in refused(tmp_path / "c.npy")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("faces", (2, 2, 2), h5py.vlen_dtype(np.uint8))
    assert "object values" in refused(tmp_path / "d.h5")


def test_a_compressed_npz_is_refused_with_its_cure(tmp_path):
    np.savez_compressed(tmp_path / "images.npz", faces=BYTES)
    assert "write it with np.savez, or as .npy" in refused(tmp_path / "images.npz")


@pytest.mark.parametrize("kind", [".npz", ".h5"])
def test_a_missing_dataset_names_the_nearest_and_an_unsaid_one_the_choice(tmp_path, kind):
    path = write(tmp_path, kind, BYTES)
    faces = "faces" if kind == ".npz" else "more/faces"
    assert f"did you mean '{faces}'?" in refused(path, faces.replace("faces", "face"))
    assert "it holds" in refused(path, "xyzzy")
    message = refused(path)
    assert message.startswith("data.dataset: ") and "labels" in message and faces in message


@pytest.mark.parametrize("kind", [".npz", ".h5"])
def test_the_only_dataset_needs_no_name(tmp_path, kind):
    path = tmp_path / f"images{kind}"
    if kind == ".npz":
        np.savez(path, BYTES)
    else:
        with h5py.File(path, "w") as file:
            file["faces"] = BYTES
    settings = DataSettings(source="arrays", path=path, held_out=0)
    np.testing.assert_array_equal(open_source(settings, "train").read(6), BYTES[6])


def test_files_that_are_not_what_they_say_are_refused(tmp_path):
    assert "needs a path" in refused(None)
    assert "no such file" in refused(tmp_path / "missing.npy")
    (tmp_path / "a.txt").touch()
    assert "reads .npy, .npz, .h5, .hdf5" in refused(tmp_path / "a.txt")
    for kind in (".npy", ".npz", ".h5"):
        whole = write(tmp_path, kind, BYTES)
        cut = tmp_path / f"cut{kind}"
        cut.write_bytes(whole.read_bytes()[:100])
        assert "cannot be read" in refused(cut, None if kind == ".npy" else "faces")
        empty = tmp_path / f"empty{kind}"
        empty.touch()
        assert "cannot be read" in refused(empty)
    assert "leave it out" in refused(write(tmp_path, ".npy", BYTES), "faces")
    h5py.File(tmp_path / "none.h5", "w").close()
    assert "holds no array" in refused(tmp_path / "none.h5")


@pytest.mark.parametrize("kind", [".npy", ".npz", ".h5"])
def test_a_file_that_is_cut_off_while_training_costs_images_and_no_more(tmp_path, kind):
    path = write(tmp_path, kind, np.random.default_rng(2).integers(0, 256, (60, 40, 40), np.uint8))
    source = opened(path)
    before, first = source.fingerprint(), source.read(0)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Unreadable, match="image 59: the file has been cut off"):
        source.read(59)
    if kind != ".h5":
        np.testing.assert_array_equal(source.read(0), first)
    assert source.fingerprint() == before


def test_a_damaged_chunk_is_an_unreadable_image(tmp_path):
    path = tmp_path / "images.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("faces", data=BYTES, chunks=(1, 5, 6, 3), compression="gzip")
        about = made.id.get_chunk_info(4)
    with path.open("r+b") as file:
        file.seek(about.byte_offset)
        file.write(b"\xff" * about.size)
    source = open_source(DataSettings(source="arrays", path=path, held_out=0), "train")
    assert source.fingerprint()
    with pytest.raises(Unreadable, match="image 4: "):
        source.read(4)
    np.testing.assert_array_equal(source.read(3), BYTES[3])


def test_nothing_is_read_from_other_files(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(range(200)))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["faces"] = BYTES
    path = tmp_path / "images.h5"
    layout = h5py.VirtualLayout(BYTES.shape, np.uint8)
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "faces", BYTES.shape)
    with h5py.File(path, "w") as file:
        file["own"] = BYTES
        file.create_virtual_dataset("virtual", layout)
        outside = [(str(tmp_path / "secret"), 0, 75)]
        file.create_dataset("external", (3, 5, 5), np.uint8, external=outside)
        file["linked"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "faces")
        file["soft"] = h5py.SoftLink("/linked")
    for name in ("virtual", "external"):
        assert f"the values of '{name}' lie in other files" in refused(path, name)
    for name in ("linked", "soft"):
        assert f"has no '{name}'" in refused(path, name)
    assert "linked" not in refused(path) and "own" in refused(path)


def test_a_file_that_claims_to_be_huge_is_refused_by_its_header(tmp_path):
    def h5(shape, **more):
        path = tmp_path / f"{shape[0]}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("a", shape, np.uint8, **more)
        return refused(path, max_pixels=10_000)

    assert "images of 100000 x 100000 pixels" in h5((2, 10**5, 10**5), chunks=(1, 100, 100))
    assert "chunks of 100,000,000 bytes" in h5((10**4, 100, 100), chunks=(10**4, 100, 100))
    assert "1,000,000,000,000 images" in h5((10**12, 1, 1), chunks=(9, 1, 1))
    np.save(tmp_path / "a.npy", np.zeros((4, 100, 200), np.uint8))
    assert "images of 200 x 100 pixels" in refused(tmp_path / "a.npy", max_pixels=10_000)
    for shape in (
        "(1000000, 9999, 9999)",
        "(99999999999999999999, 9, 9)",
        "(2, -9, 9)",
        "(1,",
        "9",
    ):
        for descr in ("'|u1'", "'|O'", "[('a', '|u1')]", "(" * 5000):
            text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
            head = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()
            (tmp_path / "b.npy").write_bytes(head)
            refused(tmp_path / "b.npy")


def test_a_zip_archive_that_lies_is_refused(tmp_path):
    path = write(tmp_path, ".npz", BYTES)
    whole = bytearray(path.read_bytes())
    for place in [*range(30), *range(len(whole) - 150, len(whole))]:
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            source = opened(path)
        except ConfigError:
            continue
        assert source.read(0).dtype == np.uint8
