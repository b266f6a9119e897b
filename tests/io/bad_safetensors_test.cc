// Thirty ways in which a safetensors file can be wrong, each with twenty seeds: what is right in
// the file, and where the fault lies, changes with the seed.

#include "tests/io/files.h"

namespace quern {
namespace {

/// What a refusal must name.
struct Bad {
    std::string file;
    std::string field;

    /// Empty where the fault is of no tensor.
    std::string tensor = {};
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
           ",\"data_offsets\":" + offsets + "}";
}

std::string range(std::uint64_t begin, std::uint64_t end) {
    return "[" + std::to_string(begin) + "," + std::to_string(end) + "]";
}

/// A file with some good tensors of 4 bytes each, to which a case adds its fault.
struct Builder {
    explicit Builder(Random& random) {
        const auto count = random.integer(0, 4);
        for (std::int64_t i = 0; i < count; ++i) {
            parts.push_back(
                entry("good." + std::to_string(i), "\"F32\"", "[1]", range(end, end + 4)));
            end += 4;
        }
    }

    /// The file with `more` among the entries and `extra` bytes of data after the good ones.
    std::string with(Random& random, const std::string& more, std::uint64_t extra = 0) const {
        std::vector<std::string> all = parts;
        if (!more.empty()) all.insert(all.begin() + random.integer(0, std::ssize(all)), more);
        std::string json = "{";
        for (const std::string& part : all) json += part + ",";
        if (json.size() > 1) json.pop_back();
        json += "}" + std::string(static_cast<std::size_t>(random.integer(0, 7)), ' ');
        return little(json.size(), 8) + json + std::string(end + extra, '\x01');
    }

    std::vector<std::string> parts;
    std::uint64_t end = 0;
};

std::string some_name(Random& random) { return "bad." + std::to_string(random.integer(0, 1000)); }

/// An entry with a fault in one field; it would take 4 bytes of data.
Bad bad_entry(Random& random, const std::string& field, const std::string& dtype,
              const std::string& shape, const std::string& offsets = {}) {
    const Builder builder(random);
    const std::string name = some_name(random);
    const std::string at = offsets.empty() ? range(builder.end, builder.end + 4) : offsets;
    return {builder.with(random, entry(name, dtype, shape, at), 4), field, name};
}

Bad bad_header(const std::string& json, const std::string& field = "header") {
    return {little(json.size(), 8) + json, field};
}

using Case = Bad (*)(Random&);
struct NamedCase {
    const char* name;
    Case make;
};

const NamedCase kCases[] = {
    {"LengthZero",
     [](Random& r) {
         return Bad{little(0, 8) + Builder(r).with(r, ""), "header"};
     }},
    {"LengthBeyondTheFile",
     [](Random& r) {
         const std::string file = Builder(r).with(r, "");
         const auto lie = file.size() - 7 + static_cast<std::uint64_t>(r.integer(0, 1000));
         return Bad{little(lie, 8) + file.substr(8), "header length"};
     }},
    {"LengthOver100MB",
     [](Random& r) {
         const auto lie = static_cast<std::uint64_t>(r.integer(100'000'001, 1LL << 40));
         return Bad{little(lie, 8) + Builder(r).with(r, "").substr(8), "header length"};
     }},
    {"LengthNearTwoTo64",
     [](Random& r) {
         const auto lie = ~static_cast<std::uint64_t>(r.integer(0, 15));
         return Bad{little(lie, 8) + Builder(r).with(r, "").substr(8), "header length"};
     }},
    {"NotUtf8",
     [](Random& r) {
         std::string file = Builder(r).with(r, entry(some_name(r), "\"F32\"", "[0]", "[0,0]"));
         const std::string json = file.substr(8, file.rfind('}') - 7);
         const auto at = static_cast<std::size_t>(r.integer(8, 8 + std::ssize(json) - 1));
         file[at] = static_cast<char>(r.integer(0x80, 0xff));
         return Bad{file, "header"};
     }},
    {"NotJson",
     [](Random& r) {
         const std::string file = Builder(r).with(r, "");
         const std::size_t brace = file.rfind('}');
         const std::string junk(1, "]:,x"[r.integer(0, 3)]);
         return bad_header(file.substr(8, brace - 8) + junk);
     }},
    {"ArrayOnTop",
     [](Random& r) {
         return bad_header("[" + std::string(static_cast<std::size_t>(r.integer(0, 9)), ' ') + "]");
     }},
    {"JunkFirst",
     [](Random& r) {
         const char* const junk[] = {"x", "\xef\xbb\xbf", "//\n", "\"a\"", "\x01", "1,"};
         return bad_header(junk[r.integer(0, 5)] + std::string("{}"));
     }},
    {"JunkAfterTheObject",
     [](Random& r) {
         const std::string junk[] = {"x", "{}", std::string(1, '\0'), ",", "\"a\"", "1"};
         return bad_header("{}" + junk[r.integer(0, 5)]);
     }},
    {"SameTensorTwice",
     [](Random& r) {
         Builder builder(r);
         const std::string name = some_name(r);
         builder.parts.push_back(entry(name, "\"U8\"", "[0]", range(0, 0)));
         return Bad{builder.with(r, entry(name, "\"U8\"", "[0]", range(0, 0))), "name", name};
     }},
    {"MetadataTwice",
     [](Random& r) {
         Builder builder(r);
         builder.parts.push_back("\"__metadata__\":{}");
         return Bad{builder.with(r, "\"__metadata__\":{}"), "__metadata__"};
     }},
    {"MetadataKeyTwice",
     [](Random& r) {
         return Bad{Builder(r).with(r, R"("__metadata__":{"k":"1","k":"2"})"), "__metadata__"};
     }},
    {"MetadataThatIsNoText",
     [](Random& r) {
         const std::string values[] = {"1", "-1", "1.5", "null", "true", "{}", "[]"};
         const std::string value = values[r.integer(0, 6)];
         const bool whole = r.integer(0, 1) != 0 && value != "{}";
         return Bad{
             Builder(r).with(r, "\"__metadata__\":" + (whole ? value : "{\"k\":" + value + "}")),
             "__metadata__"};
     }},
    {"NulInAName",
     [](Random& r) {
         return Bad{Builder(r).with(r, entry("a\\u0000" + some_name(r), "\"U8\"", "[0]", "[0,0]")),
                    "name"};
     }},
    {"EmptyName",
     [](Random& r) {
         return Bad{Builder(r).with(r, entry("", "\"U8\"", "[0]", "[0,0]")), "name"};
     }},
    {"HugeName",
     [](Random& r) {
         const std::string name(static_cast<std::size_t>(r.integer(4097, 200'000)), 'n');
         return Bad{Builder(r).with(r, entry(name, "\"U8\"", "[0]", "[0,0]")), "name"};
     }},
    {"UnknownDType",
     [](Random& r) {
         const std::string dtypes[] = {"\"F4\"",   "\"F8_E8M0\"", "\"C64\"", "\"f32\"",
                                       "\"F32 \"", "\"\"",        "4",       "null"};
         return bad_entry(r, "dtype", dtypes[r.integer(0, 7)], "[1]");
     }},
    {"NegativeExtent",
     [](Random& r) {
         return bad_entry(r, "shape", "\"F32\"",
                          "[" + std::to_string(r.integer(-1'000'000, -1)) + "]");
     }},
    {"FractionalExtent",
     [](Random& r) {
         const std::string extents[] = {"1.0", "1e0", "0.5", "1E+3", "\"1\"", "null", "[1]", "-0"};
         return bad_entry(r, "shape", "\"F32\"", "[" + extents[r.integer(0, 7)] + "]");
     }},
    {"AThousandAxes",
     [](Random& r) {
         std::string shape = "[1";
         for (std::int64_t i = r.integer(64, 2000); i > 0; --i) shape += ",1";
         return bad_entry(r, "shape", "\"F32\"", shape + "]");
     }},
    {"ProductOverflow",
     [](Random& r) {
         // 2^a * 2^b with a + b >= 64, which wraps to 0, or to 1 with odd factors.
         const auto a = r.integer(20, 62);
         const auto b = r.integer(64 - a, 62);
         const std::string shape = range(std::uint64_t{1} << a, std::uint64_t{1} << b);
         return bad_entry(r, "shape", "\"U8\"", shape);
     }},
    {"BytesOverflow",
     [](Random& r) {
         // 2^61 elements or more of 8 bytes.
         const auto extent = std::uint64_t{1} << r.integer(61, 62);
         return bad_entry(r, "shape", "\"F64\"", "[" + std::to_string(extent) + "]");
     }},
    {"OffsetsReversed",
     [](Random& r) {
         const auto begin = static_cast<std::uint64_t>(r.integer(1, 100));
         return bad_entry(r, "data_offsets", "\"F32\"", "[1]", range(begin + 4, begin));
     }},
    {"OneOrThreeOffsets",
     [](Random& r) {
         const std::string offsets[] = {"[0]", "[0,4,4]", "[]", "4"};
         return bad_entry(r, "data_offsets", "\"F32\"", "[1]", offsets[r.integer(0, 3)]);
     }},
    {"OffsetsPastTheEnd",
     [](Random& r) {
         const Builder builder(r);
         const std::string name = some_name(r);
         const auto size = static_cast<std::uint64_t>(r.integer(5, 1 << 20));
         const std::string shape = "[" + std::to_string(size) + "]";
         return Bad{builder.with(
                        r, entry(name, "\"U8\"", shape, range(builder.end, builder.end + size)), 4),
                    "data_offsets", name};
     }},
    {"Hole",
     [](Random& r) {
         const Builder builder(r);
         const std::string name = some_name(r);
         const auto hole = static_cast<std::uint64_t>(r.integer(1, 100));
         const auto begin = builder.end + hole;
         return Bad{
             builder.with(r, entry(name, "\"F32\"", "[1]", range(begin, begin + 4)), hole + 4),
             "data_offsets", name};
     }},
    {"Overlap",
     [](Random& r) {
         Builder builder(r);
         builder.parts.push_back(
             entry("last", "\"U8\"", "[8]", range(builder.end, builder.end + 8)));
         const std::string name = some_name(r);
         const auto begin = builder.end + static_cast<std::uint64_t>(r.integer(1, 7));
         return Bad{builder.with(r, entry(name, "\"F32\"", "[2]", range(begin, begin + 8)),
                                 begin + 8 - builder.end),
                    "data_offsets", name};
     }},
    {"BytesAfterTheData",
     [](Random& r) {
         return Bad{Builder(r).with(r, "", static_cast<std::uint64_t>(r.integer(1, 100))), "data"};
     }},
    {"ShortByOne",
     [](Random& r) {
         const Builder builder(r);
         const std::string name = "z" + some_name(r);
         return Bad{
             builder.with(r, entry(name, "\"F32\"", "[1]", range(builder.end, builder.end + 4)), 3),
             "data_offsets", name};
     }},
    {"EmptyTensorInsideAnother",
     [](Random& r) {
         Builder builder(r);
         builder.parts.push_back(
             entry("last", "\"U8\"", "[8]", range(builder.end, builder.end + 8)));
         const std::string name = some_name(r);
         const auto at = builder.end + static_cast<std::uint64_t>(r.integer(1, 7));
         return Bad{builder.with(r, entry(name, "\"F32\"", "[0]", range(at, at)), 8),
                    "data_offsets", name};
     }},
    {"Depth100000",
     [](Random& r) {
         const auto depth = static_cast<std::size_t>(r.integer(100'000, 110'000));
         const std::string open = r.integer(0, 1) != 0 ? "[" : "{\"a\":";
         std::string deep;
         for (std::size_t i = 0; i < depth; ++i) deep += open;
         return bad_header("{\"a\":{\"shape\":" + deep, "shape");
     }},
    {"FieldTwice",
     [](Random& r) {
         return Bad{Builder(r).with(r, R"("twice":{"dtype":"U8","dtype":"U8","shape":[0],)"
                                       R"("data_offsets":[0,0]})"),
                    "dtype", "twice"};
     }},
    {"FieldMissingOrUnknown",
     [](Random& r) {
         if (r.integer(0, 1) != 0)
             return Bad{Builder(r).with(r, R"("x":{"dtype":"U8","shape":[0]})"), "data_offsets",
                        "x"};
         return Bad{Builder(r).with(r, R"("x":{"dtype":"U8","strides":[0]})"), "entry", "x"};
     }},
};

class BadSafetensors : public ::testing::TestWithParam<NamedCase> {};

TEST_P(BadSafetensors, IsRefusedWithFileTensorAndField) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        const Bad bad = GetParam().make(random);
        const std::string message =
            file_error([&] { parse_safetensors(bytes_of(bad.file), "bad.safetensors"); });
        std::string start = "[parse_safetensors] bad.safetensors: ";
        EXPECT_TRUE(message.starts_with(start)) << "seed " << seed << ": " << message;
        if (!bad.tensor.empty()) start += "tensor '" + bad.tensor + "': ";
        const bool names_field =
            message.starts_with(start + bad.field + ": ") ||
            (bad.tensor.empty() && message.find(": " + bad.field + ": ") != message.npos);
        EXPECT_TRUE(names_field) << "seed " << seed << ": " << message << "\n  expected "
                                 << start + bad.field;
    }
}

INSTANTIATE_TEST_SUITE_P(Classes, BadSafetensors, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(BadSafetensorsHeader, OfAMillionTensorsIsRefused) {
    std::string json = "{";
    for (int i = 0; i < 1'000'000; ++i)
        json += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
    json.back() = '}';
    EXPECT_THROWS(FileError, "header: expected at most 262144 tensors, got more",
                  parse_safetensors(bytes_of(little(json.size(), 8) + json), "m"));
}

TEST(BadSafetensorsHeader, OfAMillionTextsIsRefused) {
    std::string json = "{\"__metadata__\":{";
    for (int i = 0; i < 1'000'000; ++i) json += "\"" + std::to_string(i) + "\":\"\",";
    json.back() = '}';
    json += '}';
    EXPECT_THROWS(FileError, "__metadata__: expected at most 262144 texts, got more",
                  parse_safetensors(bytes_of(little(json.size(), 8) + json), "m"));
}

TEST(BadSafetensorsHeader, WithNumbersFrom2To63OnIsRefused) {
    for (const char* fields :
         {R"("shape":[9223372036854775808])", R"("data_offsets":[0,9223372036854775808])"}) {
        const std::string json = std::string(R"({"w":{)") + fields + "}}";
        EXPECT_THROWS(FileError, "expected integers from 0 to 2^63 - 1, got 9223372036854775808",
                      parse_safetensors(bytes_of(little(json.size(), 8) + json), "m"));
    }
}

TEST(BadSafetensorsHeader, ShowsAHostileNameInPrintableText) {
    const std::string json = R"({"\u001b[31m\n)" + std::string(300, 'x') + R"(":1})";
    const std::string message =
        file_error([&] { parse_safetensors(bytes_of(little(json.size(), 8) + json), "m"); });
    EXPECT_NE(message.find(R"(tensor '\x1b[31m\x0axxx)"), message.npos) << message;
    EXPECT_LT(message.size(), 400u);
}

}  // namespace
}  // namespace quern
