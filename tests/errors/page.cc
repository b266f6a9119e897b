// From the text of a page to its examples.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "example.h"
#include "quern/script/value.h"

namespace quern::errors {
namespace {

std::string trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

/// The parts between the commas that are outside brackets.
std::vector<std::string> listed(std::string_view text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        if (c == ',' && depth == 0) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    for (std::string& part : parts) part = trimmed(part);
    return parts;
}

/// Splits at the first `separator`; the second part is empty without one.
std::pair<std::string, std::string> split_at(std::string_view text, char separator) {
    const std::size_t at = text.find(separator);
    if (at == std::string_view::npos) return {trimmed(text), {}};
    return {trimmed(text.substr(0, at)), trimmed(text.substr(at + 1))};
}

/// 0, 1, 2, 3, 0, 1, ... unless one value is given for all elements.
Tensor filled(const Shape& shape, DType dtype, const std::string& fill) {
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = fill.empty() ? static_cast<double>(i % 4) : std::stod(fill);
    }
    return Tensor::from(shape, values).to(dtype);
}

/// `x: float32[4, 5]`, `n: int64`, `idx: int64[3] = 1000000`.
Operand read_operand(const std::string& text) {
    const auto [name, rest] = split_at(text, ':');
    const auto [type, fill] = split_at(rest, '=');
    const auto [dtype_name, extents] = split_at(type, '[');
    const auto dtype = dtype_from_string(dtype_name);
    if (name.empty() || !dtype) throw ValueError("expected 'name: dtype[extents]', got " + text);
    Shape shape;
    if (!extents.empty()) {
        if (extents.back() != ']') throw ValueError("expected ']' at the end of " + type);
        for (const std::string& extent : listed(extents.substr(0, extents.size() - 1))) {
            shape.push_back(std::stoll(extent));
        }
    }
    return {name, filled(shape, *dtype, fill)};
}

/// `eps = 1e-5`.
Argument read_argument(const std::string& text) {
    const auto [name, number] = split_at(text, '=');
    const auto value = script::parse_number(number);
    if (name.empty() || !value) throw ValueError("expected 'name = number', got " + text);
    if (const auto* integer = value->as<std::int64_t>()) return {name, *integer};
    if (const auto* truth = value->as<bool>()) return {name, *truth};
    return {name, *value->as<double>()};
}

/// The lines of the code block behind the heading.
std::string block_behind(const std::string& page, const std::string& heading) {
    const std::string opening = "\n## " + heading + "\n```quern\n";
    const std::size_t at = page.find(opening);
    if (at == std::string::npos) throw ValueError("expected a block behind '## " + heading + "'");
    const std::size_t begin = at + opening.size();
    const std::size_t end = page.find("\n```\n", begin);
    if (end == std::string::npos) throw ValueError("expected the end of the block of " + heading);
    return page.substr(begin, end + 1 - begin);
}

}  // namespace

Example read_example(std::string text) {
    Example example;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line) && line.starts_with("// ");) {
        const auto [what, rest] = split_at(std::string_view(line).substr(3), ':');
        if (what == "operands") {
            example.has_operands = true;
            for (const std::string& one : listed(rest)) {
                example.operands.push_back(read_operand(one));
            }
        } else if (what == "arg") {
            for (const std::string& one : listed(rest)) {
                example.arguments.push_back(read_argument(one));
            }
        } else if (what == "pedantic") {
            example.pedantic = true;
        } else if (what == "needs") {
            example.needs = listed(rest).at(0);
        }
    }
    example.text = std::move(text);
    return example;
}

Page read_page(std::string_view code) {
    const std::string path =
        std::string(QUERN_SOURCE_DIR) + "/docs/errors/" + std::string(code) + ".md";
    std::ifstream file(path, std::ios::binary);
    if (!file) throw ValueError("there is no page docs/errors/" + std::string(code) + ".md");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Page page;
    page.title = text.substr(0, text.find('\n'));
    page.lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    page.wrong = read_example(block_behind(text, "Wrong"));
    page.right = read_example(block_behind(text, "Right"));
    return page;
}

}  // namespace quern::errors
