"""Holds `sleds fits` against astropy and numpy.

    check.py SLEDS DIRECTORY SEED hist|bin|samples|bad

Writes a line for each difference, and at the end how many comparisons were made.
"""

import glob
import os
import random
import subprocess
import sys
import warnings

import astropy
import numpy as np
from astropy.io import fits

warnings.simplefilter("ignore")
np.seterr(all="ignore")

SLEDS, DIR, SEED, WHAT = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
rng = np.random.default_rng(SEED)
random.seed(SEED)
made = 0

TYPES = {8: "u1", 16: "i2", 32: "i4", 64: "i8", -32: "f4", -64: "f8"}


def differ(*what):
    print("DIFFERENCE", *what)


def path(name):
    return os.path.join(DIR, name)


def sleds(*args):
    return subprocess.run([SLEDS, "fits", *map(str, args)], capture_output=True, text=True)


def cool(name):
    """Leaves some ranges of a file in the page cache, or none, or it as it is. (To evict ranges is not
    enough: the kernel keeps pages in larger units, and evicts only whole ones.)"""
    ranges = random.randrange(5)
    if ranges == 4:
        return
    size = os.path.getsize(name)
    with open(name, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(ranges):
            at = random.randrange(size) & ~4095
            for page in range(at, min(size, at + random.randrange(1, size + 1)), 4096):
                os.pread(file.fileno(), 1, page)


def plain(data):
    """Without the byte order of the file."""
    return data.astype(data.dtype.newbyteorder("="))


def write(name, bitpix, shape, scale=None, zero=None, blank=None, extension=False, small=False,
          alone=False):
    kind = np.dtype(TYPES[bitpix])
    if bitpix > 0:
        info = np.iinfo(kind)
        low, high = (max(info.min, -50), 50) if small else (info.min, info.max)
        raw = rng.integers(low, high, size=shape, dtype=kind, endpoint=True)
        if blank is not None:
            raw[rng.random(shape) < 0.1] = blank
    else:
        raw = rng.integers(-1000, 1000, size=shape).astype(kind) if small else \
            rng.normal(0, 1000, size=shape).astype(kind)
        raw[rng.random(shape) < 0.05] = np.nan
    hdu = (fits.ImageHDU if extension else fits.PrimaryHDU)(raw)
    header = hdu.header
    if scale is not None:
        header["BSCALE"] = scale
    if zero is not None:
        header["BZERO"] = zero
    if blank is not None:
        header["BLANK"] = blank
    header["CRPIX1"], header["CRPIX2"], header["CDELT1"], header["CD2_2"] = 10.5, 20.0, 0.25, 0.125
    header["LONGTEXT"] = "a long text " * 20
    header["DATAMAX"] = 1.0
    parts = [fits.PrimaryHDU(), hdu] if extension else [hdu]
    if not alone and random.random() < 0.3:
        parts.append(fits.ImageHDU(np.arange(1000.0)))
    fits.HDUList(parts).writeto(path(name), overwrite=True, checksum=random.random() < 0.5)
    with open(path(name), "rb") as file:
        os.fdatasync(file.fileno())
    # What astropy made of the keywords that say how numbers are stored does not matter here: the
    # bytes do.
    with fits.open(path(name), do_not_scale_image_data=True) as back:
        same = back[1 if extension else 0]
        assert same.data.dtype.newbyteorder("=") == kind
        assert np.array_equal(plain(same.data), raw, equal_nan=bitpix < 0)
    return raw


def worth(raw, header):
    """The values as doubles, and which are defined."""
    scale, zero = header.get("BSCALE", 1.0), header.get("BZERO", 0.0)
    defined = np.ones(raw.shape, bool)
    if raw.dtype.kind == "f":
        defined = ~np.isnan(raw)
    elif "BLANK" in header:
        defined = raw != header["BLANK"]
    if raw.dtype.kind != "f" and scale == 1 and float(zero).is_integer():
        values = (raw.astype(object) + int(zero)).astype(np.float64)
    else:
        values = raw.astype(np.float64)
        if scale != 1 or zero != 0:
            values = values * scale + zero
    return values, defined


def raw_of(name, number):
    with fits.open(path(name) if os.sep not in name else name,
                   do_not_scale_image_data=True) as file:
        return plain(file[number].data), file[number].header.copy()


def all_plans(command, source, *rest):
    """Runs with every plan, each in another state of the cache; the results must be the same."""
    results = []
    for plan in ("linear", "best", "auto"):
        cool(source.split("[")[0])
        out = path("out.%s.fits" % plan)
        if os.path.exists(out):
            os.remove(out)
        done = sleds(command, "--plan", plan, source, out, *rest)
        content = None
        if os.path.exists(out):
            with open(out, "rb") as file:
                content = file.read()
        results.append((done.returncode, done.stderr, content))
    # Which of several pixels that do not fit is named first depends on the order of reading.
    same = [(r[0], r[1] if r[0] == 0 else "", r[2]) for r in results]
    if not all(result == same[0] for result in same):
        differ(command, source, rest, "depends on the plan", [r[:2] for r in results])
    if len(os.listdir(DIR)) != len([n for n in os.listdir(DIR) if not n.startswith(".")]):
        differ(command, source, rest, "left something behind", os.listdir(DIR))
    return results[0][0], results[0][1], path("out.linear.fits")


def check_hist(source, number, low, high, size, text):
    global made
    made += 1
    code, err, out = all_plans("hist", source, text, repr(size))
    raw, header = raw_of(source.split("[")[0], number)
    values, defined = worth(raw, header)
    values = values[defined].ravel()
    finite = values[np.isfinite(values)]
    if code != 0:
        if not (finite.size == 0 or (low is not None and high is None and low > finite.max())
                or (low is None and high is not None and high < finite.min())):
            differ("hist", source, text, size, "failed:", err)
        return
    low = finite.min() if low is None else low
    high = finite.max() if high is None else high
    count = max(int(np.ceil((high - low) / size)), 1)
    inside = values[(values >= low) & (values <= high)]
    bins = np.minimum(np.floor((inside - low) / size).astype(np.int64), count - 1)
    expected = np.bincount(bins, minlength=count)
    with open(source.split("[")[0], "rb") as file:
        before = file.read()
    with open(out, "rb") as file:
        if file.read(len(before)) != before:
            differ("hist", source, "the copy is not the file")
    with fits.open(out, checksum=True) as file:
        table = file["HISTOGRAM"]
        if not np.array_equal(table.data["Y"], expected):
            differ("hist", source, text, size, "counts", table.data["Y"][:9], expected[:9])
        middles = low + (np.arange(count) + 0.5) * size
        if not np.allclose(table.data["X"], middles, rtol=1e-14, atol=0):
            differ("hist", source, text, size, "middles")
        if not np.array_equal(table.data["ERROR"], np.sqrt(expected)):
            differ("hist", source, text, size, "errors")
        for hdu in file[-1:]:
            if hdu.verify_checksum() != 1 or hdu.verify_datasum() != 1:
                differ("hist", source, "checksum")
            hdu.verify("exception")


def rebinned(raw, defined, x, y, average, header, exact):
    """Sums as they are stored, and how many pixels each has."""
    if raw.ndim == 1:
        y, raw, defined = 1, raw[None, :], defined[None, :]
        flat = True
    else:
        flat = False
    height, width = raw.shape[-2] // y * y, raw.shape[-1] // x * x
    cut = np.where(defined, raw, 0)[..., :height, :width]
    mask = defined[..., :height, :width]
    shape = raw.shape[:-2] + (height // y, y, width // x, x)
    number = cut.astype(object) if exact else cut.astype(np.float64)
    sums = number.reshape(shape).sum(axis=(-3, -1))
    counts = mask.reshape(shape).sum(axis=(-3, -1))
    if flat:
        sums, counts = sums[0], counts[0]
    return sums, counts


def nearest(value):
    """The nearest whole number of a fraction, the even one of two."""
    from fractions import Fraction
    return round(Fraction(value))


def expected_whole(sums, counts, header, average, blank):
    from fractions import Fraction
    scale, zero = header.get("BSCALE", 1.0), header.get("BZERO", 0.0)
    out = np.empty(sums.shape, object)
    for at in np.ndindex(sums.shape):
        n = int(counts[at])
        if n == 0:
            out[at] = blank
        elif average:
            out[at] = nearest(Fraction(int(sums[at]), n))
        elif float(zero / scale).is_integer():
            out[at] = int(sums[at]) + (n - 1) * int(zero / scale)
        else:
            out[at] = int(sums[at]) + nearest((n - 1) * (zero / scale))
    return out


def check_bin(source, number, x, y, average, bitpix):
    global made
    made += 1
    words = [x] + ([y] if y else [])
    if average:
        words.append("--average")
    if bitpix:
        words.append("--bitpix=%d" % bitpix)
    code, err, out = all_plans("bin", source, *words)
    raw, header = raw_of(source.split("[")[0], number)
    values, defined = worth(raw, header)
    y = y or x
    what = ("bin", source, raw.dtype, raw.shape, words)
    small = raw.shape[-1] < x or (raw.ndim > 1 and raw.shape[-2] < y)
    stored = TYPES[bitpix] if bitpix else raw.dtype.str[1:]
    whole_in, whole_out = raw.dtype.kind != "f", stored[0] != "f"
    blank = header.get("BLANK")
    if small:
        if code == 0 or "less than one bin" not in err:
            differ(*what, "should be too small:", code, err)
        return
    sums, counts = rebinned(raw, defined, x, y, average, header, whole_in)
    scale, zero = header.get("BSCALE", 1.0), header.get("BZERO", 0.0)
    if whole_in and whole_out:
        expected = expected_whole(sums, counts, header, average, blank)
    else:
        with np.errstate(all="ignore"):
            numbers = sums.astype(np.float64)
            stored_value = numbers / counts if average else numbers + (counts - 1) * (zero / scale)
            same = whole_in == whole_out
            expected = stored_value if same else stored_value * scale + zero
            expected = np.where(counts == 0, np.nan, expected)
    if whole_out:
        info = np.iinfo(stored)
        flat = [blank if v is None or v != v else
                (v if whole_in else round(v)) for v in expected.ravel()]
        bad = any(v is None or not info.min <= v <= info.max for v in flat)
        bad = bad or any(v == blank and n > 0 for v, n in zip(flat, counts.ravel()))
        if bad:
            if code == 0 or os.path.exists(out):
                differ(*what, "should not fit")
            return
        expected = np.array(flat, dtype=object).reshape(expected.shape).astype(stored)
    if code != 0:
        differ(*what, "failed:", err)
        return
    with fits.open(out, do_not_scale_image_data=True, checksum=True) as file:
        found, new = plain(file[0].data), file[0].header
        file[0].verify("exception")
        if found.dtype != np.dtype(stored) or found.shape != expected.shape:
            differ(*what, "is", found.dtype, found.shape)
            return
        if whole_out:
            if not np.array_equal(found, expected):
                differ(*what, "pixels", found.ravel()[:5], expected.ravel()[:5])
        else:
            # numpy adds in another order: the last bits may differ, unless the numbers are whole.
            limit = np.abs(rebinned(np.abs(np.where(defined, raw, 0)).astype(np.float64), defined,
                                    x, y, average, header, False)[0]) * abs(scale) + abs(float(zero)) * counts
            near = np.abs(found.astype(np.float64) - expected) <= limit * (
                1e-13 if stored == "f8" else 2e-7)
            both = np.isnan(found) & np.isnan(expected)
            if not (near | both).all():
                differ(*what, "values", found.ravel()[:5], expected.ravel()[:5])
        if "CHECKSUM" in header and (file[0].verify_checksum() != 1 or file[0].verify_datasum() != 1):
            differ(*what, "checksum")
        if "LONGTEXT" in header and new["LONGTEXT"] != header["LONGTEXT"]:
            differ(*what, "long text")
        if "LONGTEXT" in header:
            steps = y if raw.ndim > 1 else 1
            wanted = ((10.5 - 0.5) / x + 0.5, (20.0 - 0.5) / steps + 0.5, 0.25 * x, 0.125 * steps)
            got = tuple(new[k] for k in ("CRPIX1", "CRPIX2", "CDELT1", "CD2_2"))
            if not np.allclose(got, wanted, rtol=1e-14):
                differ(*what, "coordinates", got, wanted)


def cases():
    """Images of every kind: name, arguments of `write`."""
    for bitpix in TYPES:
        for shape in ((7,), (1, 1), (40, 33), (201, 177), (3, 20, 31), (2, 2, 9, 10)):
            for variant in range(3):
                options = {"small": variant == 0, "extension": random.random() < 0.4}
                if bitpix > 0:
                    if variant == 1:
                        options["zero"] = {8: -128, 16: 32768, 32: 2147483648,
                                           64: 9223372036854775808}[bitpix]
                        options["small"] = random.random() < 0.5
                    if variant == 2:
                        options.update(scale=0.5, zero=3.25, small=True)
                    if random.random() < 0.5:
                        options["blank"] = random.choice([0, 7, 100])
                elif variant == 2:
                    options.update(scale=2.0, zero=10.0)
                yield bitpix, shape, options


def generated():
    for bitpix, shape, options in cases():
        write("in.fits", bitpix, shape, **options)
        yield path("in.fits"), 1 if options["extension"] else 0


def hist():
    for source, number in generated():
        raw, header = raw_of(source, number)
        values, defined = worth(raw, header)
        values = values[defined & np.isfinite(values)]
        if values.size == 0:
            continue
        span = float(values.max() - values.min()) or 1.0
        size = span / random.choice([1, 7, 100, 1000.5])
        middle = float(np.median(values))
        ranges = [
            (None, None, "-"),
            (middle, None, "%r:" % middle),
            (None, middle, "INDEF,%r" % middle),
            (middle, middle + span / 3, "%r:%r" % (middle, middle + span / 3)),
        ]
        for low, high, text in random.sample(ranges, 2):
            check_hist(source, number, low, high, size, text)


def rebin():
    for source, number in generated():
        for _ in range(2):
            x, y = random.choice([1, 2, 3, 4, 7]), random.choice([None, 1, 2, 5])
            check_bin(source, number, x, y, random.random() < 0.4,
                      random.choice([None, None, 8, 16, 32, 64, -32, -64]))


def samples():
    """The files that astropy ships for its own tests."""
    root = os.path.dirname(astropy.__file__)
    for source in sorted(glob.glob(root + "/**/*.fits", recursive=True)):
        try:
            with fits.open(source, do_not_scale_image_data=True, disable_image_compression=True) as file:
                file.verify("exception")
                images = [n for n, hdu in enumerate(file)
                          if type(hdu) in (fits.PrimaryHDU, fits.ImageHDU)
                          and hdu.data is not None and hdu.data.size]
                count = len(file)
        except Exception:
            # Broken on purpose: an answer is wanted, no crash.
            for command in (("hist", source, path("x.fits"), "-", "1e9"), ("bin", source, path("x.fits"), "2")):
                done = sleds(*command, "--clobber")
                if done.returncode not in (0, 1) or "panicked" in done.stderr:
                    differ(command, done)
            continue
        for number in range(count):
            spec = "%s[%d]" % (source, number)
            if number not in images:
                for command in (("hist", spec, path("x.fits"), "-", "1"), ("bin", spec, path("x.fits"), "2")):
                    done = sleds(*command)
                    if done.returncode != 1 or not done.stderr or os.path.exists(path("x.fits")):
                        differ(spec, "is no image:", done)
                continue
            raw, header = raw_of(source, number)
            values, defined = worth(raw, header)
            finite = values[defined & np.isfinite(values)]
            span = float(finite.max() - finite.min()) or 1.0 if finite.size else 1.0
            check_hist(spec, number, None, None, span / 50, "-")
            check_bin(spec, number, 2, None, random.random() < 0.5, random.choice([None, -64]))
    if os.path.exists(path("x.fits")):
        os.remove(path("x.fits"))


def fails(text, *args):
    global made
    made += 1
    before = set(os.listdir(DIR))
    done = sleds(*args)
    if done.returncode != 1 or text not in done.stderr or done.stderr.count("\n") != 1:
        differ(args, "should say", text, "but:", done.returncode, done.stderr)
    if set(os.listdir(DIR)) != before:
        differ(args, "left", set(os.listdir(DIR)) ^ before)


def bad():
    write("in.fits", 16, (50, 60), small=True, alone=True)
    good, out = path("in.fits"), path("out.fits")
    with open(good, "rb") as file:
        content = file.read()

    def cut(length, name="cut.fits"):
        with open(path(name), "wb") as file:
            file.write(content[:length])
        return path(name)

    for command, rest in (("hist", ("-", "1")), ("bin", ("2",))):
        fails("No such file", command, path("none.fits"), out, *rest)
        fails("directory", command, DIR, out, *rest)
        fails("is empty", command, cut(0), out, *rest)
        fails("ends within a header", command, cut(2000), out, *rest)
        fails("does not begin with SIMPLE", command, __file__, out, *rest)
        fails("bytes of the data of HDU 0 are missing", command, cut(len(content) // 2), out, *rest)
        fails("has no HDU 9", command, good + "[9]", out, *rest)
        fails("has no HDU called NIX", command, good + "[nix]".upper(), out, *rest)
        fails("not a file with a length", command, "/dev/null", out, *rest)
        fails("cannot write", command, good, "/nowhere/out.fits", *rest)
        fails("exists; --clobber", command, good, good, *rest)
    fails("is not a range", "hist", good, out, "x", "1")
    fails("no values between", "hist", good, out, "1e9:", "1")
    fails("bins are too many", "hist", good, out, "-", "1e-300")
    fails("less than one bin", "bin", good, out, "100")
    # What fills the last block may be missing; what is behind the last HDU is left out.
    whole = cut(len(content))
    with open(whole, "ab") as file:
        file.write(b"junk" * 100)
    done = sleds("hist", whole, out, "-", "1")
    if done.returncode != 0 or "400 bytes behind the last HDU" not in done.stderr:
        differ("junk", done)
    fits.open(out).verify("exception")
    # Replaced only if asked, and by both ways of asking.
    for args in (("!" + out,), ("--clobber", out)):
        done = sleds("bin", good, *args, "2")
        if done.returncode != 0 or len(fits.open(out)) != 1:
            differ("clobber", done)
    done = sleds("bin", "--clobber", good, good, "2")
    if done.returncode != 0 or fits.open(good)[0].data.shape != (25, 30):
        differ("in place", done)


{"hist": hist, "bin": rebin, "samples": samples, "bad": bad}[WHAT]()
print("compared", made)
