#include "tests/io/files.h"

namespace quern {
namespace npy_test {

/// A file of version 1.0 with this header and these elements.
std::string npy(std::string_view header, std::string_view elements, char version = 1) {
    std::string text = "\x93NUMPY";
    text += version;
    text += '\0';
    text += little(header.size(), version == 1 ? 2 : 4);
    return text + std::string(header) + std::string(elements);
}

std::string npy_of(std::string_view descr, std::string_view shape, std::string_view elements,
                   std::string_view order = "False") {
    return npy("{'descr': " + std::string(descr) + ", 'fortran_order': " + std::string(order) +
                   ", 'shape': " + std::string(shape) + ", }\n",
               elements);
}

Tensor parse(const std::string& text) { return parse_npy(bytes_of(text), "a.npy"); }

std::string refusal(const std::string& text) {
    return file_error([&] { parse(text); });
}

constexpr DType kNpyDTypes[] = {DType::Bool,   DType::Int8,    DType::Int16,   DType::Int32,
                                DType::Int64,  DType::UInt8,   DType::UInt16,  DType::UInt32,
                                DType::UInt64, DType::Float16, DType::Float32, DType::Float64};

TEST(Npy, RoundTripsEveryDTypeAndShape) {
    for (const DType dtype : kNpyDTypes)
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 5},
                                   Shape{2, 0, 4}, Shape{2, 3, 4, 5}}) {
            const Tensor tensor = random_tensor(shape, dtype, 1);
            EXPECT_TRUE(same(parse_npy(to_npy(tensor), "a.npy"), tensor)) << to_string(dtype);
        }
}

TEST(Npy, WritesTheBytesThatNumPyReads) {
    const std::string text = text_of(to_npy(Tensor::from<std::uint8_t>({3}, {1, 2, 3})));
    const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    EXPECT_EQ(text.substr(0, 10), std::string("\x93NUMPY\x01\x00", 8) + little(118, 2));
    EXPECT_EQ(text.substr(10, header.size()), header);
    EXPECT_EQ(text.substr(127), "\n\x01\x02\x03");
}

TEST(Npy, StartsTheElementsAtAMultipleOf64) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{12, 1}, Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
        const std::size_t bytes = to_npy(Tensor(shape)).size() - Tensor(shape).bytes();
        EXPECT_EQ(bytes % 64, 0u) << to_string(shape);
    }
}

TEST(Npy, WritesANonContiguousTensorInRowMajorOrder) {
    const Tensor tensor = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor read = parse_npy(to_npy(tensor.permute({1, 0}).slice(0, 0, 3, 2)), "a.npy");
    EXPECT_EQ(read.shape(), (Shape{2, 2}));
    EXPECT_EQ(read.values(), (std::vector<double>{1, 4, 3, 6}));
}

TEST(Npy, ReadsFortranOrder) {
    const Tensor tensor = parse(npy_of("'|u1'", "(2, 3)", "\1\2\3\4\5\6", "True"));
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.integers(), (std::vector<std::int64_t>{1, 3, 5, 2, 4, 6}));
}

TEST(Npy, ReadsBothByteOrders) {
    EXPECT_EQ(parse(npy_of("'<i2'", "(2,)", std::string("\x01\x02\x03\x04", 4))).integers(),
              (std::vector<std::int64_t>{0x0201, 0x0403}));
    EXPECT_EQ(parse(npy_of("'>i2'", "(2,)", std::string("\x01\x02\x03\x04", 4))).integers(),
              (std::vector<std::int64_t>{0x0102, 0x0304}));
    EXPECT_EQ(parse(npy_of("'>f8'", "()", std::string("\x3f\xf8\0\0\0\0\0\0", 8))).item(), 1.5);
    EXPECT_EQ(parse(npy_of("'>u1'", "(1,)", "\x07")).item(), 7);
}

TEST(Npy, ReadsVersions2And3) {
    for (const char version : {2, 3}) {
        const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
        EXPECT_EQ(parse(npy(header, "\x05", version)).item(), 5);
    }
}

TEST(Npy, ReadsTheDictionaryAsPythonWould) {
    EXPECT_EQ(parse(npy(R"(  { "shape":(2 ,1), 'fortran_order' :False,"descr":'|i1'}  )", "\1\2"))
                  .shape(),
              (Shape{2, 1}));
    EXPECT_EQ(parse(npy_of("'|i1'", "(2L,)", "\1\2")).shape(), (Shape{2}));
}

TEST(Npy, ReadsAnyByteOfABoolThatIsNotZeroAsTrue) {
    const Tensor tensor = parse(npy_of("'|b1'", "(3,)", std::string("\x00\x01\xff", 3)));
    EXPECT_EQ(tensor.dtype(), DType::Bool);
    EXPECT_EQ(text_of({static_cast<const std::byte*>(tensor.data()), 3}),
              std::string("\x00\x01\x01", 3));
}

TEST(Npy, NamesFileAndFieldOfWhatItRefuses) {
    EXPECT_EQ(
        refusal(npy_of("'<c8'", "()", "12345678")),
        "[parse_npy] a.npy: descr: expected '<' or '>' and one of b1, i1 to i8, u1 to u8, f2, "
        "f4, f8, got '<c8' (complex numbers)");
    EXPECT_EQ(
        refusal(npy_of("'<f4'", "(2,)", "1234")),
        "[parse_npy] a.npy: shape: expected 8 bytes of elements for shape [2] of float32, got "
        "4");
}

TEST(Npy, RefusesToWriteWhatNumPyHasNoTypeFor) {
    for (const DType dtype : {DType::BFloat16, DType::Float8E4M3, DType::Float8E5M2})
        EXPECT_THROWS(DTypeError, "expected a dtype that NumPy has", to_npy(Tensor({1}, dtype)));
}

TEST(Npy, RefusesToWriteMoreAxesThanItReads) {
    EXPECT_TRUE(same(parse_npy(to_npy(Tensor(Shape(64, 1))), "a.npy"), Tensor(Shape(64, 1))));
    EXPECT_THROWS(ShapeError, "expected at most 64 axes, got 65", to_npy(Tensor(Shape(65, 1))));
}

TEST(Npy, LeavesAFileAloneThatItCannotReplace) {
    const TemporaryFolder folder;
    const Tensor tensor = Tensor::from<float>({2}, {1, 2});
    save_npy(folder / "a.npy", tensor);
    EXPECT_THROWS(DTypeError, "[save_npy]",
                  (save_npy(folder / "a.npy", tensor.to(DType::BFloat16)), 0));
    EXPECT_TRUE(same(load_npy(folder / "a.npy"), tensor));
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.npy"}));
}

TEST(Npy, TakesNoMoreMemoryThanTwiceTheFile) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
    const TemporaryFolder folder;
    const std::size_t size = 64 << 20;
    for (const bool fortran : {false, true}) {
        const std::string elements(size, '\x01');
        write_bytes(folder / "a.npy",
                    npy_of("'|u1'", "(8192, 8192)", elements, fortran ? "True" : "False"));
        const std::string result = in_child(RLIM_INFINITY, [&] {
            const auto before = peak_memory();
            const Tensor tensor = load_npy(folder / "a.npy");
            const auto times = static_cast<double>(peak_memory() - before) / double(size);
            return std::string(times < (fortran ? 2.2 : 1.2) ? "well" : "large");
        });
        EXPECT_EQ(result, "well") << fortran;
    }
}

TEST(Npy, RefusesWhatIsNoRegularFile) {
    const TemporaryFolder folder;
    EXPECT_THROWS(FileError, "none.npy: file: expected a file that can be read, got: No such file",
                  load_npy(folder / "none.npy"));
    EXPECT_THROWS(FileError, "file: expected a regular file", load_npy(folder / ""));
    EXPECT_THROWS(FileError, "file: expected a regular file", load_npy("/dev/zero"));
}

}  // namespace npy_test
}  // namespace quern
