// The header of a npy file: a Python dictionary of three known keys, read by a parser for just
// that.
//
// Source: NumPy, numpy/lib/format.py, "Format Version 1.0" to "3.0".

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/io/little_endian.h"
#include "quern/io/npy.h"
#include "quern/support/check.h"

namespace quern::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// Longest header that is read. A plain array needs 2,000 bytes at most; versions 2 and 3 allow 4
/// GiB for the field names of records, which are refused anyway.
constexpr std::uint64_t kMaxHeader = 65535;

/// Walks over the text of the dictionary.
class Dictionary {
public:
    Dictionary(std::string_view text, const Place& place) : text_(text), place_(place) {}

    NpyHeader parse();

private:
    void skip_space() {
        while (position_ < text_.size() &&
               std::string_view(" \t\n\r\f").find(text_[position_]) != std::string_view::npos)
            ++position_;
    }
    bool take(char c) {
        skip_space();
        if (position_ == text_.size() || text_[position_] != c) return false;
        ++position_;
        return true;
    }
    void expect(char c, std::string_view field) {
        if (!take(c)) fail(field, fmt::format("'{}'", c));
    }
    [[noreturn]] void fail(std::string_view field, std::string_view expected) const {
        const std::string_view rest = text_.substr(position_, 24);
        place_.fail(field, fmt::format("expected {}, got {}", expected,
                                       rest.empty() ? "the end of the header" : in_quotes(rest)));
    }
    std::string_view take_string(std::string_view field);
    bool take_bool(std::string_view field);
    std::int64_t take_extent();
    Shape take_shape();
    void read_type(NpyHeader& header);

    std::string_view text_;
    Place place_;
    std::size_t position_ = 0;
};

std::string_view Dictionary::take_string(std::string_view field) {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail(field, "a quoted text");
    const std::size_t begin = ++position_;
    while (position_ < text_.size() && text_[position_] != quote && text_[position_] != '\\')
        ++position_;
    if (position_ == text_.size() || text_[position_] != quote) fail(field, "a closing quote");
    return text_.substr(begin, position_++ - begin);
}

bool Dictionary::take_bool(std::string_view field) {
    skip_space();
    for (const bool value : {false, true}) {
        const std::string_view word = value ? "True" : "False";
        if (text_.substr(position_, word.size()) != word) continue;
        position_ += word.size();
        return value;
    }
    fail(field, "True or False");
}

std::int64_t Dictionary::take_extent() {
    skip_space();
    const std::size_t begin = position_;
    std::uint64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
        const auto digit = static_cast<std::uint64_t>(text_[position_] - '0');
        if (value > (static_cast<std::uint64_t>(INT64_MAX) - digit) / 10) {
            position_ = begin;
            fail("shape", "an extent below 2^63");
        }
        value = value * 10 + digit;
        ++position_;
    }
    if (position_ == begin) fail("shape", "an extent of decimal digits");
    // Python 2 wrote long integers with an L.
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;
    return static_cast<std::int64_t>(value);
}

Shape Dictionary::take_shape() {
    Shape shape;
    expect('(', "shape");
    while (!take(')')) {
        if (shape.size() == kMaxRank) fail("shape", fmt::format("at most {} axes", kMaxRank));
        shape.push_back(take_extent());
        if (take(',')) continue;
        // (3) is a number in Python; only (3,) is a shape.
        if (shape.size() == 1) fail("shape", "','");
        expect(')', "shape");
        break;
    }
    return shape;
}

struct NpyType {
    std::string_view code;
    DType dtype;
};

constexpr std::array<NpyType, 12> kTypes = {{{"b1", DType::Bool},
                                             {"i1", DType::Int8},
                                             {"i2", DType::Int16},
                                             {"i4", DType::Int32},
                                             {"i8", DType::Int64},
                                             {"u1", DType::UInt8},
                                             {"u2", DType::UInt16},
                                             {"u4", DType::UInt32},
                                             {"u8", DType::UInt64},
                                             {"f2", DType::Float16},
                                             {"f4", DType::Float32},
                                             {"f8", DType::Float64}}};

/// Says what a type is that no tensor holds.
std::string_view kind_of(std::string_view descr) {
    switch (descr.size() < 2 ? '\0' : descr[1]) {
        case 'O':
            return " (objects, which need pickle and can run code)";
        case 'S':
        case 'a':
        case 'U':
            return " (strings)";
        case 'V':
            return " (raw records)";
        case 'c':
            return " (complex numbers)";
        case 'M':
        case 'm':
            return " (dates)";
        default:
            return "";
    }
}

void Dictionary::read_type(NpyHeader& header) {
    skip_space();
    if (position_ < text_.size() && text_[position_] == '[')
        place_.fail("descr", "expected a type of numbers, got a list of fields (records)");
    const std::string_view descr = take_string("descr");
    const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const NpyType& candidate) {
        return !descr.empty() && descr.substr(1) == candidate.code;
    });
    const bool known = type != kTypes.end();
    const char order = descr.empty() ? '\0' : descr[0];
    const bool one_byte = known && size_of(type->dtype) == 1;
    if (!known || (order != '<' && order != '>' && !(order == '|' && one_byte)))
        place_.fail("descr",
                    fmt::format("expected '<' or '>' and one of b1, i1 to i8, u1 to u8, f2, f4, "
                                "f8, got {}{}",
                                in_quotes(descr), kind_of(descr)));
    header.dtype = type->dtype;
    header.big_endian = order == '>';
}

NpyHeader Dictionary::parse() {
    constexpr std::array<std::string_view, 3> keys = {"descr", "fortran_order", "shape"};
    std::array<bool, 3> seen = {};
    NpyHeader header;
    expect('{', "header");
    while (!take('}')) {
        const std::string_view name = take_string("header");
        const auto key = std::find(keys.begin(), keys.end(), name);
        if (key == keys.end())
            place_.fail("header",
                        "expected descr, fortran_order and shape, got " + in_quotes(name));
        const auto index = static_cast<std::size_t>(key - keys.begin());
        if (seen[index]) place_.fail(name, "expected one value, got a second");
        seen[index] = true;
        expect(':', name);
        if (index == 0) read_type(header);
        if (index == 1) header.fortran_order = take_bool(name);
        if (index == 2) header.shape = take_shape();
        if (take(',')) continue;
        expect('}', "header");
        break;
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
        if (!seen[i]) place_.fail(keys[i], "expected a value, got none");
    skip_space();
    if (position_ != text_.size()) fail("header", "its end");
    return header;
}

std::uint64_t read_length(Stream& stream, const Place& place) {
    std::array<std::byte, 8> start;
    if (stream.remaining() < start.size() + 2)
        place.fail("header", fmt::format("expected at least 10 bytes, got {}", stream.remaining()));
    stream.read(start);
    const std::string_view magic(reinterpret_cast<const char*>(start.data()), kMagic.size());
    if (magic != kMagic)
        place.fail("magic", fmt::format("expected '\\x93NUMPY', got {}", in_quotes(magic)));
    const int major = std::to_integer<int>(start[6]);
    const int minor = std::to_integer<int>(start[7]);
    if (major < 1 || major > 3 || minor != 0)
        place.fail("version", fmt::format("expected 1.0, 2.0 or 3.0, got {}.{}", major, minor));

    std::array<std::byte, 4> field = {};
    const std::size_t width = major == 1 ? 2 : 4;
    if (stream.remaining() < width) place.fail("header length", "expected 4 bytes, got fewer");
    stream.read(std::span(field).first(width));
    const std::uint64_t length = from_little_endian(field);
    const std::uint64_t most = std::min(kMaxHeader, stream.remaining());
    if (length > most)
        place.fail("header length", fmt::format("expected at most {}, got {}", most, length));
    return length;
}

}  // namespace

NpyHeader read_npy_header(Stream& stream, const Place& place) {
    std::string text(read_length(stream, place), '\0');
    stream.read(std::as_writable_bytes(std::span(text)));
    NpyHeader header = Dictionary(text, place).parse();
    const auto bytes = byte_count(header.shape, header.dtype);
    if (!bytes) place.fail("shape", "expected at most 2^59 elements, got more");
    header.bytes = *bytes;
    if (header.bytes != stream.remaining())
        place.fail("shape", fmt::format("expected {} bytes of elements for shape {} of {}, got {}",
                                        header.bytes, to_string(header.shape),
                                        to_string(header.dtype), stream.remaining()));
    return header;
}

std::string format_npy_header(const Tensor& tensor, std::string_view op) {
    const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const NpyType& candidate) {
        return candidate.dtype == tensor.dtype();
    });
    if (type == kTypes.end())
        raise(
            DTypeError(fmt::format("[{}] expected a dtype that NumPy has, got {}; convert it with "
                                   "to(), or write a safetensors file",
                                   op, to_string(tensor.dtype()))));
    if (tensor.shape().size() > kMaxRank)
        raise(ShapeError(
            fmt::format("[{}] expected at most {} axes, got {}", op, kMaxRank, tensor.rank())));
    std::string shape;
    for (const std::int64_t extent : tensor.shape()) shape += fmt::format("{}, ", extent);
    // (3,) for one axis, (3, 4) for more.
    if (!shape.empty()) shape.resize(shape.size() - (tensor.rank() == 1 ? 1 : 2));
    const char order = size_of(tensor.dtype()) == 1 ? '|' : '<';
    std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   order, type->code, shape);
    // The elements start at a multiple of 64, after magic, version, length and a final newline.
    const std::size_t start = kMagic.size() + 4;
    text.append(63 - (start + text.size()) % 64, ' ');
    text += '\n';
    std::string header(kMagic);
    header += '\x01';
    header += '\0';
    append_little_endian(header, text.size(), 2);
    return header + text;
}

}  // namespace quern::io
