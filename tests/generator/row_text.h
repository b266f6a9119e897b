#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "tests/generator/random_kernel.h"

// Whole numbers of a few digits, whose sums are exact in every dtype: one order of what a point
// does is right, and each number is the one that comes of it. Where a loop ends may depend on the
// loops around it and on data, and what guards a read or a store too.

namespace quern::generator {

inline constexpr int kMost = 30;

/// One parallel point as it runs.
struct Point {
    std::int64_t row = 0;

    /// Of the loops that are open.
    std::vector<std::int64_t> loops;

    /// Of each array.
    std::vector<std::vector<double>> elements;
};

using Run = std::function<void(Point&)>;

struct Index {
    std::string text;
    std::function<std::int64_t(const Point&)> at;
};

struct Value {
    std::string text;
    std::function<double(const Point&)> of;

    /// The arrays of which it has elements.
    std::vector<std::size_t> reads = {};
};

/// An array: an operand, the row of `out`, or a shared variable.
struct Array {
    std::string name;
    std::vector<std::int64_t> shape;

    /// Indexed by the row first.
    bool has_rows = false;
    Tensor tensor;

    std::int64_t size() const {
        return std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
    }
};

/// A whole number as the loops around and data say it, of which so much is known.
struct Bound {
    Index index;
    std::int64_t low = 0, high = 0;
    bool is_of_data = false;

    bool is_known() const { return low == high; }
};

inline Bound known(std::int64_t number) {
    return {{std::to_string(number), [=](const Point&) { return number; }}, number, number};
}

struct Condition {
    std::string text;
    std::function<bool(const Point&)> holds;
    std::vector<std::size_t> reads = {};
};

struct Variable {
    std::string name;
    std::int64_t low = 0, high = 0;

    /// The same numbers at every point; numbers that data say.
    bool is_known = true, is_of_data = false;
};

/// The text of a kernel over rows, line by line, with what each line does: arrays, loops, branches,
/// expressions and stores.
class RowText {
protected:
    explicit RowText(std::uint64_t seed) : random_(seed) {}

    bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
    int pick(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }
    std::size_t pick_of(std::size_t count) { return std::size_t(pick(0, int(count) - 1)); }

    std::vector<std::int64_t> some_shape() {
        const std::int64_t wide[] = {16, 33, 64, 70};
        const std::int64_t last = chance(0.4) ? pick(1, 20) : wide[pick(0, 3)];
        if (chance(0.4)) return {pick(1, 9), std::min<std::int64_t>(last, 33)};
        return {last};
    }

    void operand(const std::string& name, const std::vector<std::int64_t>& shape, bool has_rows) {
        Array array{name, shape, has_rows, {}};
        Shape all = shape;
        if (has_rows) all.insert(all.begin(), rows_);
        array.tensor = Tensor(all, DType::Int64, Device("interpreter"));
        auto* const data = array.tensor.data<std::int64_t>();
        for (std::int64_t i = 0; i < array.tensor.element_count(); ++i) {
            data[i] = pick(-kMost, kMost);
        }
        array.tensor = array.tensor.to(dtype_);
        readable_.push_back(arrays_.size());
        arrays_.push_back(std::move(array));
    }

    /// Of integers that choose elements: in any order, some more than once.
    void chooser() {
        chosen_ = Tensor({kLongest}, DType::Int64, Device("interpreter"));
        for (int i = 0; i < kLongest; ++i) chosen_.data<std::int64_t>()[i] = pick(0, 99);
    }

    // Lines

    /// "5, 20"
    static std::string sizes(const std::vector<std::int64_t>& all) {
        std::string text;
        for (const std::int64_t n : all) text += (text.empty() ? "" : ", ") + std::to_string(n);
        return text;
    }

    void line(const std::string& text) {
        text_ += std::string(static_cast<std::size_t>(indent_) * 4, ' ') + text + "\n";
    }

    Run sequence(std::vector<Run> all) {
        return [all = std::move(all)](Point& p) {
            for (const Run& run : all) run(p);
        };
    }

    template <class Body>
    Run loop(std::int64_t low, std::int64_t high, std::int64_t step, const Body& body) {
        return loop(known(low), known(high), step, body);
    }

    /// A loop around what `body` writes; none if it has no iterations.
    template <class Body>
    Run loop(const Bound& low, const Bound& high, std::int64_t step, const Body& body) {
        const std::string name = "i" + std::to_string(variables_.size());
        const std::string by = step > 1 ? " step " + std::to_string(step) : std::string();
        line("for " + name + " in " + low.index.text + ".." + high.index.text + by + ":");
        ++indent_;
        const std::size_t slot = variables_.size();
        variables_.push_back({name, low.low, high.high - 1, low.is_known() && high.is_known(),
                              low.is_of_data || high.is_of_data});
        const std::int64_t most = (high.high - low.low + step - 1) / step;
        work_ *= most;
        const std::array seen{seen_[0].size(), seen_[1].size()};
        const Run inside = body();
        for (int depth : {0, 1}) seen_[depth].resize(seen[depth]);
        work_ /= most;
        variables_.pop_back();
        --indent_;
        return [=](Point& p) {
            const std::int64_t first = low.index.at(p), end = high.index.at(p);
            for (std::int64_t i = first; i < end; i += step) {
                p.loops.resize(slot);
                p.loops.push_back(i);
                inside(p);
            }
            p.loops.resize(slot);
        };
    }

    /// The statements that `body` writes, one more indented.
    template <class Body>
    Run indented(const Body& body) {
        ++indent_;
        Run run = body();
        --indent_;
        return run;
    }

    template <class Body>
    Run branch(const Body& body, double chance_of_else = 0.2) {
        const Condition condition = some_condition(1);
        line("if " + condition.text + ":");
        const Run inside = indented(body);
        Run otherwise = [](Point&) {};
        if (chance(chance_of_else)) {
            line("else:");
            otherwise = indented(body);
        }
        return [=](Point& p) { condition.holds(p) ? inside(p) : otherwise(p); };
    }

    // Bounds and conditions

    /// From 0 to `most`.
    Bound some_bound(std::int64_t most) {
        const auto by_data = [&](const std::string& at,
                                 std::function<std::int64_t(const Point&)> i) {
            const std::string text = "p[" + at + "] % " + std::to_string(most + 1);
            const auto of = [=, this](const Point& p) {
                return chosen_.data<std::int64_t>()[i(p)] % (most + 1);
            };
            return Bound{{text, of}, 0, most, true};
        };
        if (!numbers_.empty() && chance(0.3)) {
            const Bound& number = numbers_[pick_of(numbers_.size())];
            if (number.low >= 0 && number.high <= most) return number;
        }
        if (variables_.empty() || chance(0.2)) {
            const int further = pick(1, 9);
            return by_data("b + " + std::to_string(further),
                           [=](const Point& p) { return p.row + further; });
        }
        const std::size_t slot = pick_of(variables_.size());
        const Variable v = variables_[slot];
        if (v.high > most || v.low < 0) return known(pick(0, int(most)));
        const auto here = [=](const Point& p) { return p.loops[slot]; };
        switch (pick(0, 5)) {
            case 0: {
                const std::int64_t further = pick(0, int(std::min<std::int64_t>(most - v.high, 4)));
                if (further == 0) break;
                const auto of = [=](const Point& p) { return here(p) + further; };
                return {{v.name + " + " + std::to_string(further), of},
                        v.low + further,
                        v.high + further,
                        v.is_of_data};
            }
            case 1: {
                const auto of = [=](const Point& p) { return most - here(p); };
                return {{std::to_string(most) + " - " + v.name, of},
                        most - v.high,
                        most - v.low,
                        v.is_of_data};
            }
            case 2: {
                const std::int64_t least = pick(0, int(most));
                const auto of = [=](const Point& p) { return std::min(here(p), least); };
                return {{"min(" + v.name + ", " + std::to_string(least) + ")", of},
                        std::min(v.low, least),
                        std::min(v.high, least),
                        v.is_of_data};
            }
            case 3: {
                const auto of = [=](const Point& p) { return here(p) / 2; };
                return {{v.name + " / 2", of}, v.low / 2, v.high / 2, v.is_of_data};
            }
            case 4:
                return by_data(bare(v, kLongest), here);
            default:
                break;
        }
        return {{v.name, here}, v.low, v.high, v.is_of_data};
    }

    Condition compared(const Index& a, const std::string& sign, const Index& b) {
        const std::string text = a.text + " " + sign + " " + b.text;
        const auto by = [&](auto holds) {
            return Condition{text, [=](const Point& p) { return holds(a.at(p), b.at(p)); }};
        };
        if (sign == "<") return by(std::less<>());
        if (sign == "<=") return by(std::less_equal<>());
        if (sign == ">") return by(std::greater<>());
        if (sign == ">=") return by(std::greater_equal<>());
        return sign == "==" ? by(std::equal_to<>()) : by(std::not_equal_to<>());
    }

    Condition above(const Value& left) {
        const Value right = chance(0.3) ? some_element() : literal();
        Condition result{left.text + " > " + right.text,
                         [=](const Point& p) { return left.of(p) > right.of(p); }, left.reads};
        result.reads.insert(result.reads.end(), right.reads.begin(), right.reads.end());
        return result;
    }

    Condition some_condition(int depth) {
        if (depth > 0 && chance(0.3)) {
            Condition a, b;
            if (chance(0.3)) {
                // The right side is known but for little when the left one is.
                const Value left = value(1);
                a = above(left), b = above(chance(0.5) ? left : value(0, left));
            } else {
                a = some_condition(0), b = some_condition(0);
            }
            std::vector<std::size_t> reads = a.reads;
            switch (pick(0, 2)) {
                case 0:
                    return {"not (" + a.text + ")", [=](const Point& p) { return !a.holds(p); },
                            reads};
                case 1:
                    reads.insert(reads.end(), b.reads.begin(), b.reads.end());
                    return {a.text + " and " + b.text,
                            [=](const Point& p) { return a.holds(p) && b.holds(p); }, reads};
                default:
                    reads.insert(reads.end(), b.reads.begin(), b.reads.end());
                    return {a.text + " or " + b.text,
                            [=](const Point& p) { return a.holds(p) || b.holds(p); }, reads};
            }
        }
        if (variables_.empty() || chance(0.4)) {
            return above(chance(0.5) ? value(1) : some_element());
        }
        static const std::string signs[] = {"<", "<=", ">", ">=", "==", "!="};
        const std::size_t slot = pick_of(variables_.size());
        const Index here{variables_[slot].name, [=](const Point& p) { return p.loops[slot]; }};
        if (chance(0.3)) {
            const std::int64_t divisor = pick(2, 4);
            const Index rest{here.text + " % " + std::to_string(divisor),
                             [=](const Point& p) { return p.loops[slot] % divisor; }};
            return compared(rest, signs[pick(4, 5)], known(pick(0, int(divisor) - 1)).index);
        }
        const std::string sign = signs[pick(0, 5)];
        return compared(here, sign, some_bound(kLongest).index);
    }

    // Expressions

    Value literal() {
        const int number = pick(-9, 9);
        return {std::to_string(number) + (is_floating(dtype_) ? ".0" : ""),
                [=](const Point&) { return double(number); }};
    }

    /// A variable as an index. By itself it says that the axis is as long as its loop.
    static std::string bare(const Variable& v, std::int64_t extent) {
        const bool is_all = v.low == 0 && v.high == extent - 1;
        const bool is_within = !v.is_known && v.low >= 0 && v.high < extent;
        return is_all || is_within ? v.name : v.name + " % " + std::to_string(extent);
    }

    /// Of an axis, in bounds whatever the loops are at, and perhaps chosen by data.
    Index index(std::int64_t extent, bool may_be_data) {
        const auto fixed = [&] {
            const std::int64_t place = pick(0, int(extent) - 1);
            return Index{std::to_string(place), [=](const Point&) { return place; }};
        };
        if (variables_.empty() || chance(0.05)) return fixed();
        const std::size_t slot = pick_of(variables_.size());
        const Variable v = variables_[slot];
        const Index wrapped{v.name + " % " + std::to_string(extent),
                            [=](const Point& p) { return p.loops[slot] % extent; }};
        // How large the result is does not depend on data.
        if (!may_be_data && v.is_of_data) return wrapped;
        const auto moved = [&](std::int64_t factor) -> std::optional<Index> {
            const std::int64_t low = -factor * v.low, high = extent - 1 - factor * v.high;
            if (low > high) return std::nullopt;
            const std::int64_t shift = chance(0.5) && low <= 0 && high >= 0
                                           ? 0
                                           : pick(int(low), int(std::min(high, low + 5)));
            std::string text = v.name;
            if (factor > 1) text = std::to_string(factor) + " * " + text;
            if (factor == 1 && shift == 0) text = bare(v, extent);
            if (shift != 0) {
                text += (shift > 0 ? " + " : " - ") + std::to_string(std::abs(shift));
            }
            return Index{text, [=](const Point& p) { return factor * p.loops[slot] + shift; }};
        };
        const std::int64_t last = extent - 1;
        switch (pick(0, 10)) {
            case 0:
                if (v.high > last) break;
                return {std::to_string(last) + " - " + v.name,
                        [=](const Point& p) { return last - p.loops[slot]; }};
            case 1:
                // Pairs of neighbours would say how long the axis is.
                if (const auto doubled = moved(2)) {
                    return {"(" + doubled->text + ") % " + std::to_string(extent), doubled->at};
                }
                break;
            case 2:
                return wrapped;
            case 3: {
                const std::int64_t divisor =
                    std::max<std::int64_t>(v.high / extent + pick(1, 3), 2);
                return {v.name + " / " + std::to_string(divisor),
                        [=](const Point& p) { return p.loops[slot] / divisor; }};
            }
            case 4:
                if (!may_be_data) break;
                return {"p[" + bare(v, kLongest) + "] % " + std::to_string(extent),
                        [=, this](const Point& p) {
                            return chosen_.data<std::int64_t>()[p.loops[slot]] % extent;
                        }};
            case 5:
            case 6: {
                const std::size_t other = pick_of(variables_.size());
                const Variable w = variables_[other];
                if (other == slot || v.high + w.high > last) break;
                if (!may_be_data && !(v.is_known && w.is_known)) break;
                return {v.name + " + " + w.name,
                        [=](const Point& p) { return p.loops[slot] + p.loops[other]; }};
            }
            default:
                break;
        }
        if (const auto same = moved(1)) return *same;
        return wrapped;
    }

    std::vector<Index> indices(const Array& array, bool may_be_data = true) {
        std::vector<Index> all;
        for (const std::int64_t extent : array.shape) all.push_back(index(extent, may_be_data));
        return all;
    }

    /// Where `out` is written, which says how large it is.
    std::vector<Index> result_place() { return indices(arrays_[out_], false); }

    static std::string place(const Array& array, const std::vector<Index>& at) {
        std::string text = array.name + (array.has_rows ? "[b" : "[");
        for (std::size_t i = 0; i < at.size(); ++i) {
            text += (i > 0 || array.has_rows ? ", " : "") + at[i].text;
        }
        return text + "]";
    }

    static std::int64_t offset(const Array& array, const std::vector<Index>& at, const Point& p) {
        std::int64_t offset = 0;
        for (std::size_t i = 0; i < at.size(); ++i) offset = offset * array.shape[i] + at[i].at(p);
        return offset;
    }

    Value element(std::size_t number, const std::vector<Index>& at) {
        return {place(arrays_[number], at),
                [=, this](const Point& p) {
                    return p.elements[number][std::size_t(offset(arrays_[number], at, p))];
                },
                {number}};
    }

    Value some_element() {
        if (!names_.empty() && chance(0.3)) return names_[pick_of(names_.size())];
        const std::size_t number = readable_[pick_of(readable_.size())];
        return element(number, indices(arrays_[number]));
    }

    /// An element of `y` that some points do not have, or a number.
    Value guarded_element() {
        const std::size_t slot = pick_of(variables_.size());
        const std::int64_t shift = pick(-3, 3), extent = arrays_[kVector].shape[0];
        const std::string sum =
            variables_[slot].name + (shift < 0 ? " - " : " + ") + std::to_string(std::abs(shift));
        const Value other = literal();
        const auto is_within = [=](std::int64_t i) { return i >= 0 && i < extent; };
        return {"select(" + sum + " >= 0 and " + sum + " < " + std::to_string(extent) + ", y[" +
                    sum + "], " + other.text + ")",
                [=](const Point& p) {
                    const std::int64_t i = p.loops[slot] + shift;
                    return is_within(i) ? p.elements[kVector][std::size_t(i)] : other.of(p);
                },
                {kVector}};
    }

    /// Of four elements at most. What several values share is computed once: it may be one that was
    /// there before, in the loops that are open.
    Value value(int depth, const std::optional<Value>& with = std::nullopt) {
        if (with || depth > 1) return combined(depth, with);
        if (!seen_[depth].empty() && chance(0.2)) {
            const Value& same = seen_[depth][pick_of(seen_[depth].size())];
            const auto is_readable = [&](std::size_t n) {
                return std::ranges::count(readable_, n) > 0;
            };
            if (std::ranges::all_of(same.reads, is_readable)) return same;
        }
        seen_[depth].push_back(combined(depth, with));
        return seen_[depth].back();
    }

    Value combined(int depth, const std::optional<Value>& with) {
        if (!with && depth == 0 && !variables_.empty() && chance(0.1)) return guarded_element();
        const Value a = with ? *with : depth > 0 ? value(depth - 1) : some_element();
        if (depth == 0 && chance(0.3)) return a;
        const Value b = chance(0.3) ? literal() : depth > 0 ? value(depth - 1) : some_element();
        const auto of_both = [&](std::string text, auto f) {
            Value both{std::move(text), [=](const Point& p) { return f(a.of(p), b.of(p)); },
                       a.reads};
            both.reads.insert(both.reads.end(), b.reads.begin(), b.reads.end());
            return both;
        };
        if (depth == 1 && !is_chosen_ && chance(0.2)) {
            is_chosen_ = true;
            const Condition condition = some_condition(1);
            is_chosen_ = false;
            Value both = of_both("select(" + condition.text + ", " + a.text + ", " + b.text + ")",
                                 std::plus<>());
            both.of = [=](const Point& p) { return condition.holds(p) ? a.of(p) : b.of(p); };
            for (const std::size_t n : condition.reads) both.reads.push_back(n);
            return both;
        }
        switch (pick(0, 3)) {
            case 0:
                return of_both("(" + a.text + " + " + b.text + ")", std::plus<>());
            case 1:
                return of_both("(" + a.text + " - " + b.text + ")", std::minus<>());
            case 2:
                return of_both("max(" + a.text + ", " + b.text + ")",
                               [](double x, double y) { return std::max(x, y); });
            default:
                return of_both("min(" + a.text + ", " + b.text + ")",
                               [](double x, double y) { return std::min(x, y); });
        }
    }

    /// In the dtype, and so that sums of several are exact.
    Value within_bounds(const Value& v) {
        const std::string bound = std::to_string(kMost) + (is_floating(dtype_) ? ".0" : "");
        const std::string text = "min(max(" + v.text + ", -" + bound + "), " + bound + ")";
        return {std::string(to_string(dtype_)) + "(" + text + ")",
                [=](const Point& p) { return std::clamp(v.of(p), -double(kMost), double(kMost)); }};
    }

    /// A number of the dtype as it is written.
    std::string begun(int number) const {
        return is_floating(dtype_)
                   ? std::string(to_string(dtype_)) + "(" + std::to_string(number) + ".0)"
                   : std::to_string(number);
    }

    Run store(std::size_t number, const std::vector<Index>& at, const Value& v) {
        const Value stored = within_bounds(v);
        line(place(arrays_[number], at) + " = " + stored.text);
        return [=, this](Point& p) {
            const double x = stored.of(p);
            p.elements[number][std::size_t(offset(arrays_[number], at, p))] = x;
        };
    }

    RandomKernel finish(const Run& body) {
        RandomKernel kernel;
        kernel.text = "compute(x: [rows, " + sizes(arrays_[0].shape) + "], y: [" +
                      sizes(arrays_[1].shape) + "], p: [" + sizes({kLongest}) + "]) {\n" + text_ +
                      "}\n";
        kernel.operands = {arrays_[0].tensor, arrays_[1].tensor, chosen_};
        kernel.shape = arrays_[out_].shape;
        kernel.shape.insert(kernel.shape.begin(), rows_);
        std::vector<std::vector<double>> given;
        for (const Array& array : arrays_) {
            given.push_back(array.tensor.rank() > 0 ? array.tensor.values()
                                                    : std::vector<double>());
        }
        for (std::int64_t row = 0; row < rows_; ++row) {
            Point p{row, {}, {}};
            for (std::size_t n = 0; n < arrays_.size(); ++n) {
                const auto size = std::size_t(arrays_[n].size());
                const std::size_t first = arrays_[n].has_rows ? std::size_t(row) * size : 0;
                p.elements.emplace_back(size);
                if (given[n].empty()) continue;
                std::copy_n(given[n].begin() + std::ptrdiff_t(first), size, p.elements[n].begin());
            }
            body(p);
            for (const double x : p.elements[out_]) kernel.expected.push_back({x, 0});
        }
        return kernel;
    }

    /// The longest loop; so many iterations are enough; the number of the operand y.
    static constexpr int kLongest = 70, kMuch = 200, kVector = 1;

    std::mt19937_64 random_;
    DType dtype_ = DType::Float32;
    std::int64_t rows_ = 1;
    std::vector<Array> arrays_;

    /// Those whose elements may be read.
    std::vector<std::size_t> readable_;
    std::size_t out_ = 0;
    Tensor chosen_;
    std::vector<Variable> variables_;

    /// By depth.
    std::array<std::vector<Value>, 2> seen_;

    /// Inside of a condition that chooses between values.
    bool is_chosen_ = false;

    /// Names of values, within bounds, and of whole numbers.
    std::vector<Value> names_;
    std::vector<Bound> numbers_;

    /// Iterations of the loops that are open.
    std::int64_t work_ = 1;
    std::string text_;
    int indent_ = 1;
};

}  // namespace quern::generator
