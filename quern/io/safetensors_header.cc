// The JSON header of a safetensors file, read event by event: a tree of the whole would keep only
// one of two equal keys and could nest without end.

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "quern/io/little_endian.h"
#include "quern/io/safetensors.h"

namespace quern::io {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

/// The names of the fields of an entry, in the order of `Handler::Field`.
constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

/// Receives the events of nlohmann's parser. An event that does not belong where it comes stops the
/// parser with `false`; `fault` then says why.
class Handler {
public:
    Handler(std::vector<SafetensorsEntry>& entries, FileMetadata& metadata)
        : entries_(entries), metadata_(metadata) {}

    struct Fault {
        std::string tensor;
        std::string field;
        std::string message;
    };
    const Fault& fault() const { return fault_; }

    bool null() { return value("null"); }
    bool boolean(bool value_) { return value(value_ ? "true" : "false"); }
    bool number_integer(std::int64_t number) { return value(fmt::format("{}", number)); }
    bool number_float(double, const std::string& text) { return value(in_quotes(text)); }
    bool binary(nlohmann::json::binary_t&) { return value("binary"); }
    bool number_unsigned(std::uint64_t number);
    bool string(std::string& text);
    bool key(std::string& name);
    bool start_object(std::size_t);
    bool end_object();
    bool start_array(std::size_t);
    bool end_array();
    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
        return fail("header", fmt::format("expected JSON, got an error at byte {}", position));
    }

private:
    enum class State { Start, Top, Metadata, Entry, Array, Done };
    enum Field { Dtype, ShapeField, Offsets };

    bool fail(std::string_view field, std::string message) {
        fault_ = {subject_, std::string(field), std::move(message)};
        return false;
    }
    bool value(std::string_view got);
    bool finish_entry();

    std::vector<SafetensorsEntry>& entries_;
    FileMetadata& metadata_;
    State state_ = State::Start;
    Fault fault_;
    bool metadata_seen_ = false;
    bool awaits_metadata_ = false;

    /// The tensor that messages name.
    std::string subject_;
    std::string metadata_key_;
    std::unordered_set<std::string> names_;

    SafetensorsEntry entry_;
    Field field_ = Dtype;
    std::array<bool, 3> seen_ = {};
    std::array<std::uint64_t, 2> offsets_ = {};
    std::size_t offset_count_ = 0;
};

/// Refuses a value that no state expects as it came.
bool Handler::value(std::string_view got) {
    switch (state_) {
        case State::Metadata:
            return fail(kMetadataKey,
                        fmt::format("expected text for {}, got {}", in_quotes(metadata_key_), got));
        case State::Entry:
            return fail(kFields[field_], fmt::format("expected {}, got {}",
                                                     field_ == Dtype ? "text" : "an array", got));
        case State::Array:
            return fail(kFields[field_],
                        fmt::format("expected integers from 0 to 2^63 - 1, got {}", got));
        case State::Start:
            return fail("header", fmt::format("expected an object, got {}", got));
        case State::Top:
            if (awaits_metadata_)
                return fail(kMetadataKey, fmt::format("expected an object, got {}", got));
            [[fallthrough]];
        case State::Done:
            break;
    }
    return fail("entry", fmt::format("expected an object, got {}", got));
}

bool Handler::number_unsigned(std::uint64_t number) {
    if (state_ != State::Array || number > static_cast<std::uint64_t>(INT64_MAX))
        return value(fmt::format("{}", number));
    if (field_ == ShapeField) {
        if (entry_.shape.size() == kMaxRank)
            return fail("shape", fmt::format("expected at most {} axes, got more", kMaxRank));
        entry_.shape.push_back(static_cast<std::int64_t>(number));
        return true;
    }
    if (offset_count_ == 2) return fail("data_offsets", "expected 2 offsets, got more");
    offsets_[offset_count_++] = number;
    return true;
}

bool Handler::string(std::string& text) {
    if (state_ == State::Metadata) {
        metadata_.emplace(metadata_key_, text);
        return true;
    }
    if (state_ != State::Entry || field_ != Dtype) return value(in_quotes(text));
    const auto dtype = safetensors_dtype(text);
    if (!dtype)
        return fail("dtype",
                    fmt::format("expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32, F64, "
                                "F8_E4M3 or F8_E5M2, got {}",
                                in_quotes(text)));
    entry_.dtype = *dtype;
    return true;
}

bool Handler::key(std::string& name) {
    if (state_ == State::Metadata) {
        if (metadata_.contains(name))
            return fail(kMetadataKey,
                        fmt::format("expected {} once, got it twice", in_quotes(name)));
        if (metadata_.size() == kSafetensorsMaxTensors)
            return fail(kMetadataKey,
                        fmt::format("expected at most {} texts, got more", kSafetensorsMaxTensors));
        metadata_key_ = name;
        return true;
    }
    if (state_ == State::Entry) {
        for (std::size_t i = 0; i < kFields.size(); ++i) {
            if (name != kFields[i]) continue;
            if (seen_[i]) return fail(name, "expected one value, got a second");
            seen_[i] = true;
            field_ = static_cast<Field>(i);
            return true;
        }
        return fail("entry",
                    fmt::format("expected dtype, shape and data_offsets, got {}", in_quotes(name)));
    }
    subject_.clear();
    awaits_metadata_ = name == kMetadataKey;
    if (awaits_metadata_) {
        if (std::exchange(metadata_seen_, true))
            return fail(kMetadataKey, "expected one, got a second");
        return true;
    }
    if (const std::string fault = name_fault(name); !fault.empty()) return fail("name", fault);
    subject_ = name;
    if (!names_.insert(name).second) return fail("name", "expected it once, got it twice");
    if (names_.size() > kSafetensorsMaxTensors)
        return fail("header",
                    fmt::format("expected at most {} tensors, got more", kSafetensorsMaxTensors));
    return true;
}

bool Handler::start_object(std::size_t) {
    if (state_ == State::Start) {
        state_ = State::Top;
        return true;
    }
    if (state_ != State::Top) return value("an object");
    state_ = awaits_metadata_ ? State::Metadata : State::Entry;
    if (state_ == State::Entry) {
        entry_ = {};
        entry_.name = subject_;
        seen_ = {};
        offset_count_ = 0;
    }
    return true;
}

bool Handler::end_object() {
    if (state_ == State::Entry && !finish_entry()) return false;
    state_ = state_ == State::Top ? State::Done : State::Top;
    subject_.clear();
    return true;
}

bool Handler::start_array(std::size_t) {
    if (state_ != State::Entry || field_ == Dtype) return value("an array");
    state_ = State::Array;
    return true;
}

bool Handler::end_array() {
    state_ = State::Entry;
    if (field_ == Offsets && offset_count_ != 2)
        return fail("data_offsets", fmt::format("expected 2 offsets, got {}", offset_count_));
    return true;
}

bool Handler::finish_entry() {
    for (std::size_t i = 0; i < kFields.size(); ++i)
        if (!seen_[i]) return fail(kFields[i], "expected a value, got none");
    const auto bytes = byte_count(entry_.shape, entry_.dtype);
    if (!bytes)
        return fail("shape",
                    fmt::format("expected at most 2^59 elements, got {}", to_string(entry_.shape)));
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.end < entry_.begin || entry_.end - entry_.begin != *bytes)
        return fail("data_offsets",
                    fmt::format("expected {} bytes for shape {} of {}, got [{}, {}]", *bytes,
                                to_string(entry_.shape), to_string(entry_.dtype), entry_.begin,
                                entry_.end));
    entries_.push_back(std::move(entry_));
    return true;
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json, const Place& place,
                                                       FileMetadata& metadata) {
    if (!is_utf8(json)) place.fail("header", "expected UTF-8, got other bytes");
    const std::size_t first = json.find_first_not_of(" \t\n\r");
    // The parser skips a byte order mark and takes a NUL for the end; the format has neither.
    if (first == json.npos || json[first] != '{')
        place.fail("header",
                   fmt::format("expected a JSON object, got {}",
                               first == json.npos ? "nothing" : in_quotes(json.substr(first, 24))));
    if (json.find('\0') != json.npos) place.fail("header", "expected JSON, got a NUL");

    std::vector<SafetensorsEntry> entries;
    Handler handler(entries, metadata);
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler))
        place.at(handler.fault().tensor).fail(handler.fault().field, handler.fault().message);
    return entries;
}

std::string format_safetensors_header(const std::vector<SafetensorsEntry>& entries,
                                      const FileMetadata& metadata) {
    // `replace` never raises; names and texts are UTF-8 by now, so it replaces nothing.
    const auto quote = [](const std::string& text) {
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    std::string json = "{";
    if (!metadata.empty()) {
        json += fmt::format("{}:{{", quote(std::string(kMetadataKey)));
        for (const auto& [key, text] : metadata) json += quote(key) + ":" + quote(text) + ",";
        json.back() = '}';
        json += ',';
    }
    for (const SafetensorsEntry& entry : entries)
        json += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)",
                            quote(entry.name), safetensors_name(entry.dtype),
                            fmt::join(entry.shape, ","), entry.begin, entry.end);
    if (json.back() == ',') json.pop_back();
    json += '}';
    json.append((8 - json.size() % 8) % 8, ' ');

    std::string header;
    append_little_endian(header, json.size(), kSafetensorsPrefix);
    return header + json;
}

}  // namespace quern::io
