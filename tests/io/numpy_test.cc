// Files that NumPy writes are read, and NumPy reads those that are written here.

#include "tests/io/files.h"

namespace quern {
namespace {

constexpr const char* kPython = "/usr/bin/python3";

/// Runs a Python program in `folder`; false if it fails.
bool run_python(const TemporaryFolder& folder, const std::string& program) {
    write_bytes(folder / "program.py", "import numpy as np\n" + program);
    const std::string command =
        "cd '" + folder / "" + "' && " + kPython + " program.py > output.txt 2>&1";
    return std::system(command.c_str()) == 0;
}

bool has_numpy() {
    static const bool result = run_python(TemporaryFolder(), "");
    return result;
}

#define QUERN_NEEDS_NUMPY() \
    if (!has_numpy()) GTEST_SKIP() << "needs " << kPython << " with numpy"

constexpr const char* kArrays = R"(
types = ['bool', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8']
shapes = [(), (0,), (5,), (2, 3), (2, 0, 3), (2, 3, 4)]
arrays = {}
for t in types:
    for s in shapes:
        a = (np.arange(int(np.prod(s))) % 7).astype(t).reshape(s)
        arrays[t + '_' + 'x'.join(map(str, s))] = a
)";

/// The arrays of `kArrays`.
TensorSet arrays() {
    const std::map<std::string, DType> types = {
        {"bool", DType::Bool},  {"i1", DType::Int8},    {"i2", DType::Int16},
        {"i4", DType::Int32},   {"i8", DType::Int64},   {"u1", DType::UInt8},
        {"u2", DType::UInt16},  {"u4", DType::UInt32},  {"u8", DType::UInt64},
        {"f2", DType::Float16}, {"f4", DType::Float32}, {"f8", DType::Float64}};
    TensorSet set;
    for (const auto& [type, dtype] : types)
        for (const Shape& shape :
             {Shape{}, Shape{0}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}, Shape{2, 3, 4}}) {
            std::string name = type + "_";
            for (std::size_t i = 0; i < shape.size(); ++i)
                name += (i == 0 ? "" : "x") + std::to_string(shape[i]);
            std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7);
            set.emplace(name, Tensor::from(shape, values).to(dtype));
        }
    return set;
}

TEST(NumPy, WritesNpyThatIsRead) {
    QUERN_NEEDS_NUMPY();
    const TemporaryFolder folder;
    ASSERT_TRUE(run_python(folder, std::string(kArrays) + R"(
for name, a in arrays.items():
    np.save(name + '.little.npy', a)
    np.save(name + '.big.npy', a.astype(a.dtype.newbyteorder('>')))
    np.save(name + '.fortran.npy', np.array(a, order='F'))
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(f'{name}.v{version[0]}.npy', 'wb') as f:
            np.lib.format.write_array(f, a, version=version)
)")) << read_bytes(folder / "output.txt");
    for (const auto& [name, expected] : arrays())
        for (const char* kind : {"little", "big", "fortran", "v1", "v2", "v3"})
            EXPECT_TRUE(same(load_npy(folder / (name + "." + kind + ".npy")), expected))
                << name << " " << kind;
}

TEST(NumPy, WritesNpzThatIsRead) {
    QUERN_NEEDS_NUMPY();
    const TemporaryFolder folder;
    ASSERT_TRUE(run_python(folder, std::string(kArrays) + R"(
np.savez('stored.npz', **arrays)
np.savez_compressed('deflated.npz', **arrays)
np.savez('positions.npz', np.arange(3.0), np.zeros(2))
)")) << read_bytes(folder / "output.txt");
    EXPECT_TRUE(same(load_npz(folder / "stored.npz"), arrays()));
    EXPECT_TRUE(same(load_npz(folder / "deflated.npz"), arrays()));
    EXPECT_EQ(load_npz(folder / "positions.npz").at("arr_0").values(),
              (std::vector<double>{0, 1, 2}));
}

TEST(NumPy, ReadsTheNpyAndNpzWrittenHere) {
    QUERN_NEEDS_NUMPY();
    const TemporaryFolder folder;
    for (const auto& [name, tensor] : arrays()) save_npy(folder / (name + ".npy"), tensor);
    TensorSet stored = arrays();
    stored.emplace("gr\u00fc\u00df", Tensor());
    save_npz(folder / "stored.npz", stored);
    save_npz(folder / "deflated.npz", arrays(), {.compress = true});
    EXPECT_TRUE(run_python(folder, std::string(kArrays) + R"(
import zipfile
stored, deflated = np.load('stored.npz'), np.load('deflated.npz')
assert set(stored.files) - set(arrays) == {'gr\u00fc\u00df'}
assert set(deflated.files) == set(arrays)
assert zipfile.ZipFile('stored.npz').testzip() is None
assert zipfile.ZipFile('deflated.npz').testzip() is None
for name, a in arrays.items():
    for b in [np.load(name + '.npy'), stored[name], deflated[name]]:
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b), name
)")) << read_bytes(folder / "output.txt");
}

TEST(NumPy, WritesWhatIsRefused) {
    QUERN_NEEDS_NUMPY();
    const TemporaryFolder folder;
    ASSERT_TRUE(run_python(folder, R"(
np.save('complex.npy', np.zeros(2, 'c8'))
np.save('text.npy', np.array(['a', 'bc']))
np.save('bytes.npy', np.array([b'a', b'bc']))
np.save('record.npy', np.zeros(2, [('x', 'f4'), ('y', 'i4')]))
np.save('date.npy', np.zeros(2, 'M8[s]'))
np.save('long.npy', np.zeros(2, np.longdouble))
np.save('raw.npy', np.zeros(2, 'V4'))
np.save('object.npy', np.array([None, 1], dtype=object), allow_pickle=True)
)")) << read_bytes(folder / "output.txt");
    for (const char* name : {"complex", "text", "bytes", "record", "date", "long", "raw", "object"})
        EXPECT_THROWS(FileError, ".npy: descr: expected",
                      load_npy(folder / (std::string(name) + ".npy")));
}

}  // namespace
}  // namespace quern
