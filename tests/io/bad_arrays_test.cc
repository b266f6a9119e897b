// Forty npy and npz files that are wrong, or right in an unusual way.

#include "tests/io/archives.h"

namespace quern {
namespace {

/// A npy file; the header is padded as NumPy does, or not, which readers must not care about.
std::string npy(const std::string& header, const std::string& elements = "1234", int version = 1,
                std::int64_t length_lie = 0) {
    const auto length = static_cast<std::uint64_t>(std::ssize(header) + length_lie);
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
           little(length, version == 1 ? 2 : 4) + header + elements;
}

std::string described(const std::string& descr, const std::string& shape = "(1,)",
                      const std::string& order = "False") {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

const std::string kGood = npy(described("'<f4'"));

struct ArrayCase {
    const char* name;
    std::string file;

    /// A part of the message; empty for a file that is right.
    std::string message;
};

std::ostream& operator<<(std::ostream& out, const ArrayCase& row) { return out << row.name; }

const ArrayCase kNpyCases[] = {
    {"Objects", npy(described("'|O'"), "12345678"), "descr: expected"},
    {"Records", npy(described("[('x', '<f4')]")), "descr: expected a type of numbers, got a list"},
    {"Text", npy(described("'<U1'")), "got '<U1' (strings)"},
    {"NoByteOrder", npy(described("'|f4'")), "descr: expected '<' or '>'"},
    {"LongDouble", npy(described("'<f16'"), std::string(16, '1')), "descr: expected"},
    {"OtherMagic", "\x93NUMPX" + kGood.substr(6), "magic: expected"},
    {"Version4", npy(described("'<f4'"), "1234", 4), "version: expected 1.0, 2.0 or 3.0, got 4.0"},
    {"MinorVersion", kGood.substr(0, 7) + '\1' + kGood.substr(8), "version: expected"},
    {"HeaderLongerThanTheFile", npy(described("'<f4'"), "1234", 1, 5), "header length: expected"},
    {"HeaderOf4GiB", npy(described("'<f4'"), "1234", 2, 0xffffff00), "header length: expected"},
    {"HeaderOver65535", npy(described("'<f4'") + std::string(65535, ' '), "1234", 2),
     "header length: expected at most 65535, got"},
    {"HeaderCutShort", npy(described("'<f4'"), "1234", 1, -3), "header: expected"},
    {"FewerElements", npy(described("'<f4'", "(2,)")), "shape: expected 8 bytes"},
    {"MoreElements", npy(described("'<f4'", "()"), "12345678"), "shape: expected 4 bytes"},
    {"ProductOverflow", npy(described("'<f4'", "(4294967296, 4294967296)")),
     "shape: expected at most 2^59 elements"},
    {"ProductOverflowBesideZero", npy(described("'<f4'", "(4294967296, 4294967296, 0)"), ""),
     "shape: expected at most 2^59 elements"},
    {"ExtentOver2To63", npy(described("'<f4'", "(9223372036854775808,)")), "an extent below 2^63"},
    {"NegativeExtent", npy(described("'<f4'", "(-1,)")), "shape: expected an extent of decimal"},
    {"FractionalExtent", npy(described("'<f4'", "(1.0,)")), "shape: expected"},
    {"NumberForAShape", npy(described("'<f4'", "(1)")), "shape: expected ','"},
    {"ListForAShape", npy(described("'<f4'", "[1]")), "shape: expected '('"},
    {"NumberForAnOrder", npy(described("'<f4'", "(1,)", "0")), "fortran_order: expected True"},
    {"KeyTwice", npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
     "descr: expected one value"},
    {"KeyMissing", npy("{'descr': '<f4', 'shape': (1,)}"), "fortran_order: expected a value"},
    {"KeyUnknown", npy("{'descr': '<f4', 'code': 'x'}"), "header: expected descr"},
    {"CodeForADictionary", npy("__import__('os').system('false')"), "header: expected '{'"},
    {"JunkAfterTheDictionary", npy(described("'<f4'") + "x"), "header: expected its end"},
    {"FortranOrderOfThreeAxes", npy(described("'|u1'", "(1, 2, 2)", "True")), ""},
};

class BadNpy : public ::testing::TestWithParam<ArrayCase> {};

TEST_P(BadNpy, IsRefusedWithItsField) {
    const ArrayCase& row = GetParam();
    const std::string message = file_error([&] { parse_npy(bytes_of(row.file), "a.npy"); });
    if (row.message.empty()) {
        EXPECT_EQ(message, "");
        return;
    }
    EXPECT_TRUE(message.starts_with("[parse_npy] a.npy: ")) << message;
    EXPECT_NE(message.find(row.message), message.npos) << message;
}

const std::string kSecond = npy(described("'<f4'"), "5678");

/// A whole entry b of an archive, to be hidden in the elements of a.
const std::string kEntry = zip({{.name = "b.npy", .content = kGood}}).substr(0, 35 + kGood.size());
const ZipPart kOuter = {
    .content = npy(described("'|u1'", "(" + std::to_string(kEntry.size()) + ",)"), kEntry)};
const ZipPart kTight = {.name = "b.npy",
                        .crc = crc_of(kGood),
                        .stored_size = kGood.size(),
                        .size = kGood.size(),
                        .offset_lie = -std::ssize(kEntry)};
/// With bytes of no entry behind it, so that the sizes of all together fit.
const ZipPart kInner = [] {
    ZipPart part = kTight;
    part.content.assign(500, 'x');
    return part;
}();

const ArrayCase kNpzCases[] = {
    {"PathsAsNames", zip({{.name = "../../etc/x.npy", .content = kGood}}), ""},
    {"Zip64Numbers", zip({{.content = kGood, .zip64 = true}}, {.zip64 = true}), ""},
    {"Comment", zip({{.content = kGood}}, {.comment = "made by hand"}), ""},
    {"Deflated",
     zip({{.content = deflated(kGood), .method = 8, .crc = crc_of(kGood), .size = kGood.size()}}),
     ""},
    {"WrongChecksum", zip({{.content = kGood, .crc = 1}}), "tensor 'a': checksum: expected"},
    {"WrongChecksumDeflated",
     zip({{.content = deflated(kGood), .method = 8, .crc = 1, .size = kGood.size()}}),
     "tensor 'a': checksum: expected"},
    {"NestedZip", zip({{.name = "b.zip", .content = zip({{.content = kGood}})}}),
     "tensor 'b.zip': name: expected an array whose name ends in .npy"},
    {"NestedZipAsNpy", zip({{.content = zip({{.content = kGood}})}}),
     "tensor 'a': magic: expected"},
    {"ObjectsInside", zip({{.content = npy(described("'|O'"))}}), "tensor 'a': descr: expected"},
    {"TruncatedArray", zip({{.content = kGood.substr(0, kGood.size() - 1)}}),
     "tensor 'a': shape: expected 4 bytes"},
    {"Encrypted", zip({{.content = kGood, .flags = 1}}), "flags: expected plain data"},
    {"OtherMethod", zip({{.content = kGood, .method = 12}}), "method: expected 0 (stored) or 8"},
    {"NoDeflatedData", zip({{.content = "junkjunk", .method = 8, .size = kGood.size()}}),
     "tensor 'a': data: expected deflated data"},
    {"StoredSizeDiffers", zip({{.content = kGood, .size = 10}}), "size: expected"},
    {"BombByItsSize",
     zip({{.content = deflated(std::string(5000, 0)), .method = 8, .size = 1u << 30}}),
     "size: expected at most 1032 times"},
    {"BombByItsContent",
     zip({{.content = deflated(npy(described("'|u1'", "(4,)")) + std::string(1'000'000, 0)),
           .method = 8,
           .crc = crc_of(kGood),
           .size = npy(described("'|u1'", "(4,)")).size()}}),
     "tensor 'a': data: expected deflated data of the stated size"},
    {"ArrayLargerThanItsEntry",
     zip({{.content = deflated(npy(described("'<f4'", "(1000000,)"))),
           .method = 8,
           .size = npy(described("'<f4'", "(1000000,)")).size()}}),
     "tensor 'a': shape: expected 4000000 bytes"},
    {"DataAfterTheLastBlock",
     zip({{.content = deflated(kGood) + "tail",
           .method = 8,
           .crc = crc_of(kGood),
           .size = kGood.size()}}),
     "data: expected deflated data of the stated size"},
    {"LargerDeflated",
     zip({{.content = deflated(kGood),
           .method = 8,
           .crc = crc_of(kGood),
           .size = kGood.size() + 1}}),
     "tensor 'a': shape: expected 4 bytes"},
    {"SameNameTwice", zip({{.content = kGood}, {.content = kSecond}}),
     "tensor 'a.npy': name: expected it once"},
    {"EntryInsideAnother", zip({kOuter, kInner}),
     "tensor 'b.npy': offset: expected data of its own, got an overlap with 'a.npy'"},
    {"EntriesLargerThanTheFile", zip({kOuter, kTight}), "got an overlap"},
    {"OtherNameInTheLocalHeader", zip({{.content = kGood, .local_name = "b.npy"}}),
     "local header: expected what the directory says"},
    {"OtherSizeInTheLocalHeader", zip({{.content = kGood, .local_size = 1}}),
     "local header: expected what the directory says"},
    {"OffsetOutside", zip({{.content = kGood, .offset_lie = 1'000'000}}),
     "offset: expected a header"},
    {"OffsetAtOtherBytes", zip({{.content = kGood, .offset_lie = 1}}),
     "local header: expected its"},
    {"DirectoryElsewhere", zip({{.content = kGood}}, {.offset_lie = -1}), "directory: expected to"},
    {"DirectorySizeLie", zip({{.content = kGood}}, {.size_lie = 100}),
     "directory: expected to fill"},
    {"MoreEntries", zip({{.content = kGood}}, {.count_lie = 1}), "directory: expected at most 1"},
    {"FewerEntries", zip({{.content = kGood}}, {.count_lie = -1}), "directory: expected 0 entries"},
    {"Zip64CountLie", zip({{.content = kGood}}, {.zip64 = true, .count64_lie = 1ull << 60}),
     "directory: expected at most 1 entries"},
    {"Zip64SeveralDisks", zip({{.content = kGood}}, {.zip64 = true, .here64_lie = 1}),
     "zip64 record: expected what the end record says"},
    {"Zip64SizeLie",
     zip({{.content = kGood, .stored_size = 1ull << 62, .size = 1ull << 62, .zip64 = true}}),
     "size: expected data that ends before the directory"},
    {"Zip64OffsetLie", zip({{.content = kGood, .offset_lie = 1LL << 62, .zip64 = true}}),
     "offset: expected a header before"},
    {"SeveralDisks", zip({{.content = kGood}}, {.disk = 1}), "expected an archive on one disk"},
    {"JunkFirst", zip({{.content = kGood}}, {.prefix = "#!/bin/sh\n"}),
     "directory: expected to fill"},
    {"JunkLast", zip({{.content = kGood}}) + "x", "end record: expected a zip archive"},
    {"EmptyName", zip({{.name = ".npy", .content = kGood}}), "name: expected a name"},
    {"NulInAName", zip({{.name = std::string("a\0.npy", 6), .content = kGood}}), "without NUL"},
    {"NameInAnotherEncoding", zip({{.name = "\x81.npy", .content = kGood}}), "expected UTF-8"},
};

class BadNpz : public ::testing::TestWithParam<ArrayCase> {};

TEST_P(BadNpz, IsRefusedWithTensorAndField) {
    const ArrayCase& row = GetParam();
    const std::string message = file_error([&] { parse_npz(bytes_of(row.file), "a.npz"); });
    if (row.message.empty()) {
        EXPECT_EQ(message, "");
        return;
    }
    EXPECT_TRUE(message.starts_with("[parse_npz] a.npz: ")) << message;
    EXPECT_NE(message.find(row.message), message.npos) << message;
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Cases, BadNpy, ::testing::ValuesIn(kNpyCases), kName);
INSTANTIATE_TEST_SUITE_P(Cases, BadNpz, ::testing::ValuesIn(kNpzCases), kName);

TEST(BadNpzMemory, ABombCostsNoMemory) {
    const std::string bomb =
        zip({{.content = deflated(npy(described("'|u1'", "(4,)")) + std::string(64 << 20, 0)),
              .method = 8,
              .size = npy(described("'|u1'", "(4,)")).size()}});
    const Bytes bytes = bytes_of(bomb);
    const std::string result = in_child(512 << 20, [&] {
        const auto before = peak_memory();
        if (file_error([&] { parse_npz(bytes, "a.npz"); }).empty()) return std::string("loaded");
        return std::string(peak_memory() - before < (8 << 20) ? "small" : "large");
    });
    EXPECT_EQ(result, "small");
}

}  // namespace
}  // namespace quern
