#include "tests/generator/random_kernel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace quern::generator {

namespace {

/// Values of loop variables and of named values, by position.
struct Environment {
    std::vector<std::int64_t> loops;
    std::vector<Approximate> names;
};

using Evaluate = std::function<Approximate(const Environment&)>;

/// An expression as text and as meaning.
struct Expression {
    std::string text;
    Evaluate value;
};

/// One statement: its lines, and what it does to the names.
struct Loop {
    std::string name;
    std::int64_t extent = 1;
    std::string bound;
};

class Generator {
public:
    explicit Generator(std::uint64_t seed) : random_(seed) {}

    RandomKernel make() {
        is_integer_ = chance(0.25);
        dtype_ = is_integer_ ? (chance(0.5) ? DType::Int32 : DType::Int64) : some_float();
        unit_ = unit_of(dtype_);
        const int rank = pick(1, 3);
        for (int i = 0; i < rank; ++i) {
            loops_.push_back({std::string(1, "ijk"[i]), extent(rank), std::string(1, "MNP"[i])});
        }
        // What lanes have several neighbours of.
        static constexpr std::int64_t kWide[] = {32, 64, 96, 128, 132, 136, 160, 256, 264};
        if (rank < 3 && chance(0.2)) loops_.back().extent = kWide[pick(0, 8)];
        depth_ = {"q", extent(rank), "K"};
        for (int i = pick(1, 3); i > 0; --i) add_operand();
        bind_every_loop();
        body();
        return finish();
    }

private:
    bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
    int pick(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

    DType some_float() {
        const int percent = pick(0, 99);
        return percent < 55   ? DType::Float32
               : percent < 80 ? DType::Float64
               : percent < 90 ? DType::Float16
                              : DType::BFloat16;
    }

    /// The most that a number is off by rounding, beside it.
    static double unit_of(DType dtype) {
        return dtype == DType::Float32    ? 6e-8
               : dtype == DType::Float16  ? 0x1p-11
               : dtype == DType::BFloat16 ? 0x1p-8
                                          : 1.2e-16;
    }

    std::int64_t extent(int rank) {
        static constexpr std::int64_t kLong[] = {0,  1,  2,  3,  4,  5,  7,   8,
                                                 15, 16, 17, 31, 33, 64, 255, 257};
        static constexpr std::int64_t kShort[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
        // Sums of more may be above all of float16.
        if (rank == 1 && dtype_ != DType::Float16) return kLong[pick(chance(0.1) ? 0 : 1, 15)];
        return kShort[pick(chance(0.05) ? 0 : 1, 10)];
    }

    struct Operand {
        std::string name;
        std::vector<int> axes;  // loop of each axis; -1 is the reduction's
        Tensor tensor;
        std::vector<double> values;
        bool reduces = false;
    };

    void add_operand(std::vector<int> axes = {}) {
        Operand o;
        o.name = std::string(1, "abcdefgh"[operands_.size()]);
        if (axes.empty()) {
            std::vector<int> all(loops_.size());
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
            if (chance(0.5)) all.push_back(-1);
            std::shuffle(all.begin(), all.end(), random_);
            all.resize(static_cast<std::size_t>(pick(1, static_cast<int>(all.size()))));
            axes = all;
        }
        o.axes = axes;
        o.reduces = std::find(axes.begin(), axes.end(), -1) != axes.end();
        fill(o);
        operands_.push_back(std::move(o));
    }

    /// Elements that are exact in every dtype. Half of the operands are views with gaps or other
    /// orders of axes.
    void fill(Operand& o) {
        Shape shape;
        for (const int a : o.axes)
            shape.push_back(a < 0 ? depth_.extent : loops_[std::size_t(a)].extent);
        Shape stored = shape;
        const bool turned = shape.size() > 1 && chance(0.3);
        if (turned) std::reverse(stored.begin(), stored.end());
        const bool gaps = chance(0.3);
        if (gaps) stored.back() = 2 * stored.back() + 1;
        std::vector<double> numbers(static_cast<std::size_t>(quern::element_count(stored)));
        for (double& n : numbers) n = is_integer_ ? pick(-40, 40) : pick(-64, 64) / 16.0;
        Tensor t = Tensor::from<double>(stored, numbers).to(dtype_);
        const int last = static_cast<int>(stored.size()) - 1;
        if (gaps) t = t.slice(last, 1, stored.back(), 2);
        if (turned) {
            std::vector<int> axes;
            for (int a = last; a >= 0; --a) axes.push_back(a);
            t = t.permute(axes);
        }
        o.tensor = t;
        o.values = t.values();
    }

    void bind_every_loop() {
        const auto binds = [&](int loop) {
            return std::any_of(operands_.begin(), operands_.end(), [&](const Operand& o) {
                return std::find(o.axes.begin(), o.axes.end(), loop) != o.axes.end();
            });
        };
        for (int l = 0; l < static_cast<int>(loops_.size()); ++l) {
            if (!binds(l)) add_operand({l});
        }
        has_depth_ = binds(-1);
    }

    double wrapped(double v) const {
        if (dtype_ == DType::Int32) {
            return static_cast<double>(static_cast<std::int32_t>(
                static_cast<std::uint32_t>(static_cast<std::int64_t>(v))));
        }
        return v;
    }

    Approximate rounded(double value, double error) const {
        if (is_integer_) return {wrapped(value), 0};
        return {value, error + unit_ * std::abs(value)};
    }

    Expression load(const Operand& o) const {
        std::string text = o.name + "[";
        for (std::size_t p = 0; p < o.axes.size(); ++p) {
            if (p > 0) text += ", ";
            text += o.axes[p] < 0 ? depth_.name : loops_[std::size_t(o.axes[p])].name;
        }
        const Shape shape = o.tensor.shape();
        const std::vector<double>* values = &o.values;
        return {text + "]", [axes = o.axes, shape, values](const Environment& e) -> Approximate {
                    std::int64_t at = 0;
                    for (std::size_t p = 0; p < axes.size(); ++p) {
                        const std::size_t loop =
                            axes[p] < 0 ? e.loops.size() - 1 : std::size_t(axes[p]);
                        at = at * shape[p] + e.loops[loop];
                    }
                    return {(*values)[std::size_t(at)], 0};
                }};
    }

    /// Where an element lies along an axis.
    struct Index {
        std::string text;
        std::function<std::int64_t(const Environment&)> at;
    };

    /// Integers from 0 to `most` along one loop, in an operand of their own.
    Index chosen_by_data(std::int64_t most) {
        const std::size_t l = std::size_t(pick(0, int(loops_.size()) - 1));
        Operand o;
        o.name = "by" + std::to_string(choosers_.size());
        std::vector<double> numbers(std::size_t(loops_[l].extent));
        for (double& n : numbers) n = pick(0, int(most));
        o.tensor = Tensor::from<double>({loops_[l].extent}, numbers)
                       .to(chance(0.5) ? DType::Int32 : DType::Int64);
        choosers_.push_back(std::move(o));
        return {choosers_.back().name + "[" + loops_[l].name + "]",
                [l, numbers](const Environment& e) {
                    return std::int64_t(numbers[std::size_t(e.loops[l])]);
                }};
    }

    /// Of an axis, in bounds for each value of its loop's variable.
    Index index(int axis) {
        const Loop& loop = axis < 0 ? depth_ : loops_[std::size_t(axis)];
        const std::string &name = loop.name, &bound = loop.bound;
        const std::int64_t extent = loop.extent, shift = pick(1, 3);
        const auto own = [axis](const Environment& e) {
            return axis < 0 ? e.loops.back() : e.loops[std::size_t(axis)];
        };
        const std::string text = std::to_string(shift);
        switch (chance(0.75) ? 0 : pick(1, 5)) {
            case 1:
                return {bound + " - 1 - " + name,
                        [=](const Environment& e) { return extent - 1 - own(e); }};
            case 2:
                return {"min(" + name + " + " + text + ", " + bound + " - 1)",
                        [=](const Environment& e) { return std::min(own(e) + shift, extent - 1); }};
            case 3:
                return {"max(" + name + " - " + text + ", 0)", [=](const Environment& e) {
                            return std::max<std::int64_t>(own(e) - shift, 0);
                        }};
            case 4:
                return {"(" + name + " * " + text + " + 1) % " + bound,
                        [=](const Environment& e) { return (own(e) * shift + 1) % extent; }};
            case 5:
                if (extent > 0) return chosen_by_data(extent - 1);
                [[fallthrough]];
            default:
                return {name, own};
        }
    }

    /// One that need not be where the loops are.
    Expression element(const Operand& o) {
        std::string text = o.name + "[";
        std::vector<Index> indices;
        for (const int axis : o.axes) {
            indices.push_back(index(axis));
            text += (indices.size() > 1 ? ", " : "") + indices.back().text;
        }
        const std::vector<double>* values = &o.values;
        return {text + "]",
                [indices, shape = o.tensor.shape(), values](const Environment& e) -> Approximate {
                    std::int64_t at = 0;
                    for (std::size_t p = 0; p < indices.size(); ++p) {
                        at = at * shape[p] + indices[p].at(e);
                    }
                    return {(*values)[std::size_t(at)], 0};
                }};
    }

    /// A leaf: an element, a name, a literal or a loop variable.
    Expression leaf(bool in_reduction) {
        for (int tries = 0; tries < 4; ++tries) {
            const Operand& o = operands_[std::size_t(pick(0, int(operands_.size()) - 1))];
            if (o.reduces && !in_reduction) continue;
            if (chance(0.75)) return element(o);
        }
        if (!names_.empty() && chance(0.6)) {
            const std::size_t n = std::size_t(pick(0, int(names_.size()) - 1));
            return {names_[n], [n](const Environment& e) { return e.names[n]; }};
        }
        if (chance(0.3)) {
            const std::size_t l = std::size_t(pick(0, int(loops_.size()) - 1));
            return {loops_[l].name,
                    [this, l](const Environment& e) { return rounded(double(e.loops[l]), 0); }};
        }
        if (is_integer_) {
            const int v = pick(1, 9);
            return {std::to_string(v), [v](const Environment&) -> Approximate {
                        return {double(v), 0};
                    }};
        }
        const double v = pick(1, 24) / 8.0;
        std::ostringstream text;
        text << v;
        std::string literal = text.str();
        if (literal.find('.') == std::string::npos) literal += ".0";
        return {literal, [v](const Environment&) -> Approximate { return {v, 0}; }};
    }

    Expression binary(int depth, bool in_reduction) {
        const Expression a = expression(depth - 1, in_reduction),
                         b = expression(depth - 1, in_reduction);
        const auto combine = [&](const std::string& op, auto f) -> Expression {
            return {"(" + a.text + " " + op + " " + b.text + ")",
                    [f, x = a.value, y = b.value](const Environment& e) { return f(x(e), y(e)); }};
        };
        switch (pick(0, 5)) {
            case 5:
                return quotient(a, bounded(b));
            case 0:
                return combine("+", [this](Approximate x, Approximate y) {
                    return rounded(x.value + y.value, x.error + y.error);
                });
            case 1:
                return combine("-", [this](Approximate x, Approximate y) {
                    return rounded(x.value - y.value, x.error + y.error);
                });
            case 2:
                // Small factors keep integers exact in double and floats away from overflow.
                return {"(" + a.text + " * " + bounded(b).text + ")",
                        [this, x = a.value, y = bounded(b).value](const Environment& e) {
                            const Approximate p = x(e), q = y(e);
                            return rounded(p.value * q.value, std::abs(p.value) * q.error +
                                                                  std::abs(q.value) * p.error +
                                                                  p.error * q.error);
                        }};
            default: {
                const bool larger = chance(0.5);
                return {(larger ? "max(" : "min(") + a.text + ", " + b.text + ")",
                        [larger, x = a.value, y = b.value](const Environment& e) -> Approximate {
                            const Approximate p = x(e), q = y(e);
                            return {
                                larger ? std::max(p.value, q.value) : std::min(p.value, q.value),
                                std::max(p.error, q.error)};
                        }};
            }
        }
    }

    /// By a number that is not 0. Integers may be remainders.
    Expression quotient(const Expression& a, const Expression& b) {
        if (is_integer_) {
            const bool is_rest = chance(0.4);
            return {"(" + a.text + (is_rest ? " % " : " / ") + "(abs(" + b.text + ") + 1))",
                    [is_rest, x = a.value, y = b.value](const Environment& e) -> Approximate {
                        const auto p = std::int64_t(x(e).value);
                        const auto q = std::int64_t(std::abs(y(e).value)) + 1;
                        return {double(is_rest ? p % q : p / q), 0};
                    }};
        }
        return {"(" + a.text + " / (abs(" + b.text + ") + 0.5))",
                [this, x = a.value, y = b.value](const Environment& e) {
                    const Approximate p = x(e), size = y(e);
                    const Approximate q = rounded(std::abs(size.value) + 0.5, size.error);
                    const double v = p.value / q.value;
                    return rounded(v, (p.error + std::abs(v) * q.error) / q.value);
                }};
    }

    Expression bounded(const Expression& a) const {
        const double limit = is_integer_ ? 9 : 3;
        const std::string low = is_integer_ ? "-9" : "-3.0", high = is_integer_ ? "9" : "3.0";
        return {"clamp(" + a.text + ", " + low + ", " + high + ")",
                [limit, x = a.value](const Environment& e) -> Approximate {
                    const Approximate p = x(e);
                    return {std::clamp(p.value, -limit, limit), p.error};
                }};
    }

    Expression function(int depth, bool in_reduction) {
        const Expression a = bounded(expression(depth - 1, in_reduction));
        struct Row {
            const char* name;
            double (*f)(double);
            double slope;  // largest derivative on [-3, 3]
        };
        static constexpr Row kRows[] = {{"sin", std::sin, 1},     {"cos", std::cos, 1},
                                        {"tanh", std::tanh, 1},   {"atan", std::atan, 1},
                                        {"asinh", std::asinh, 1}, {"expm1", std::expm1, 21},
                                        {"exp", std::exp, 21},    {"erf", std::erf, 1.13}};
        const Row& row = kRows[pick(0, int(std::size(kRows)) - 1)];
        return {std::string(row.name) + "(" + a.text + ")",
                [this, row, x = a.value](const Environment& e) {
                    const Approximate p = x(e);
                    // Two units for the function itself, as devices promise.
                    const double v = row.f(p.value);
                    return rounded(v, row.slope * p.error + 2 * unit_ * std::abs(v));
                }};
    }

    /// Of a loop's variable or of integers that are given, so that rounding cannot flip it.
    Index condition() {
        const std::size_t l = std::size_t(pick(0, int(loops_.size()) - 1));
        const std::int64_t limit = pick(0, 8);
        const Index left =
            chance(0.3) ? chosen_by_data(8)
                        : Index{loops_[l].name, [l](const Environment& e) { return e.loops[l]; }};
        return {left.text + " < " + std::to_string(limit),
                [left, limit](const Environment& e) { return std::int64_t(left.at(e) < limit); }};
    }

    Expression choice(int depth, bool in_reduction) {
        const Index chosen = condition();
        const Expression a = expression(depth - 1, in_reduction),
                         b = expression(depth - 1, in_reduction);
        return {"select(" + chosen.text + ", " + a.text + " + 0, " + b.text + " + 0)",
                [chosen, x = a.value, y = b.value](const Environment& e) {
                    return chosen.at(e) != 0 ? x(e) : y(e);
                }};
    }

    Expression expression(int depth, bool in_reduction) {
        if (depth == 0 || chance(0.2)) return leaf(in_reduction);
        if (!is_integer_ && chance(0.25)) return function(depth, in_reduction);
        if (chance(0.15)) return choice(depth, in_reduction);
        return binary(depth, in_reduction);
    }

    void line(const std::string& text) {
        text_ += std::string(static_cast<std::size_t>(indent_) * 4, ' ') + text + "\n";
    }

    void let() {
        const Expression e = expression(pick(1, 3), false);
        // A name of weak numbers alone would have the dtype of its first use.
        const std::string typed = anchor();
        line("let " + fresh() + " = " + e.text + " + 0 * " + typed);
        steps_.push_back([x = e.value](Environment& env) { env.names.push_back(x(env)); });
    }

    /// A value of the operands' dtype: weak numbers alone would be float32, whatever the operands.
    std::string anchor() const {
        for (const Operand& o : operands_) {
            if (!o.reduces) return load(o).text;
        }
        return *std::find_if(names_.begin(), names_.end(), is_reduced);
    }

    static bool is_reduced(const std::string& name) { return name[0] == 'v'; }

    std::string fresh() {
        names_.push_back("t" + std::to_string(names_.size()));
        return names_.back();
    }

    /// Which q a reduction goes over.
    struct Span {
        std::string text;
        std::function<std::int64_t(const Environment&)> begin, end;
        std::int64_t step = 1;
    };

    /// All, or a part that a loop around it decides once K is bound by a loop over all of it.
    Span span() {
        const std::string& all = depth_.bound;
        const auto zero = [](const Environment&) { return std::int64_t(0); };
        const auto extent = [k = depth_.extent](const Environment&) { return k; };
        if (!binds_depth_ || chance(0.5)) {
            binds_depth_ = true;
            return {"0.." + all, zero, extent};
        }
        if (chance(0.25)) {
            const Index cut = chosen_by_data(depth_.extent);
            return {"0.." + cut.text, zero, cut.at};
        }
        const std::size_t l = std::size_t(pick(0, int(loops_.size()) - 1));
        const int shift = pick(0, 3);
        const std::string place = loops_[l].name + " + " + std::to_string(shift);
        const auto cut = [l, shift, k = depth_.extent](const Environment& e) {
            return std::min(e.loops[l] + shift, k);
        };
        Span part = chance(0.5) ? Span{"0..min(" + place + ", " + all + ")", zero, cut}
                                : Span{"min(" + place + ", " + all + ").." + all, cut, extent};
        if (chance(0.3)) {
            part.step = pick(2, 5);
            part.text += " step " + std::to_string(part.step);
        }
        return part;
    }

    void reduction() {
        const bool guarded = chance(0.3), is_conditional = chance(0.2);
        const Span over = span();
        const Index holds = is_conditional
                                ? condition()
                                : Index{"", [](const Environment&) { return std::int64_t(1); }};
        const std::int64_t limit = pick(0, 12);
        const Expression e = expression(pick(1, 2), true);
        // A sum, a maximum, a minimum, or what depends on the order.
        const int kind = pick(0, 3);
        const std::string name = "v" + std::to_string(names_.size());
        const bool is_sum = kind == 0, is_serial = kind == 3;
        const std::string start = is_sum || is_serial ? (is_integer_ ? "0" : "0.0")
                                  : kind == 1         ? "-1000"
                                                      : "1000";
        const std::string first = is_sum || is_serial || is_integer_ ? start : start + ".0";
        line("var " + name + " = " + first);
        if (is_conditional) {
            line("if " + holds.text + ":");
            ++indent_;
        }
        line("for " + depth_.name + " in " + over.text + ":");
        ++indent_;
        if (guarded) {
            line("if " + depth_.name + " < " + std::to_string(limit) + ":");
            ++indent_;
        }
        const std::string added = e.text + " + 0 * " + reducing_load();
        line(is_sum ? name + " += " + added
             : is_serial
                 ? name + " = " + name + (is_integer_ ? " / 2 + " : " * 0.5 + ") + added
                 : name + " = " + (kind == 1 ? "max(" : "min(") + name + ", " + added + ")");
        indent_ -= 1 + int(guarded) + int(is_conditional);
        names_.push_back(name);
        steps_.push_back([=, this, x = e.value](Environment& env) {
            double total = is_sum || is_serial ? 0 : kind == 1 ? -1000 : 1000;
            double magnitude = 0, error = 0;
            const std::int64_t end = holds.at(env) != 0 ? over.end(env) : 0;
            for (std::int64_t q = over.begin(env); q < end; q += over.step) {
                if (guarded && q >= limit) break;
                env.loops.push_back(q);
                const Approximate a = x(env);
                env.loops.pop_back();
                magnitude += std::abs(a.value);
                if (is_sum) {
                    total += a.value;
                    error += a.error;
                } else if (is_serial) {
                    const double half = is_integer_ ? double(std::int64_t(total) / 2) : total * 0.5;
                    const Approximate next = rounded(half + a.value, error * 0.5 + a.error);
                    // Before the sum the product is rounded.
                    total = next.value;
                    error = next.error + unit_ * std::abs(half);
                } else {
                    total = kind == 1 ? std::max(total, a.value) : std::min(total, a.value);
                    error = std::max(error, a.error);
                }
            }
            // Any order of summation stays within n units of the sum of magnitudes.
            if (is_sum) error += unit_ * double(depth_.extent + 1) * magnitude;
            env.names.push_back(
                {is_sum || !is_integer_ ? total : wrapped(total), is_integer_ ? 0 : error});
        });
    }

    /// Reads every operand with the reduction's axis, so that each binds.
    std::string reducing_load() const {
        std::string all;
        for (const Operand& o : operands_) {
            if (o.reduces) all += (all.empty() ? "(" : " + ") + load(o).text;
        }
        return all + ")";
    }

    void body() {
        std::string head = "for ";
        for (std::size_t i = 0; i < loops_.size(); ++i) {
            head += (i > 0 ? ", " : "") + loops_[i].name + " in 0.." + loops_[i].bound;
        }
        indent_ = 1;
        line("@kernel custom");
        if (chance(0.3)) line("@workgroup(" + std::to_string(1 << pick(0, 6)) + ")");
        line(head + ":");
        ++indent_;
        // The first statement reads every operand without the reduction's axis, so that each binds.
        std::string all;
        for (const Operand& o : operands_) {
            if (!o.reduces) all += (all.empty() ? "" : " + ") + load(o).text;
        }
        if (all.empty()) {
            reduction();
        } else {
            line("let bind = 0 * (" + all + ")");
        }
        for (int n = pick(0, 3); n > 0; --n) {
            if (has_depth_ && chance(0.5)) {
                reduction();
            } else {
                let();
            }
        }
        if (has_depth_ && std::none_of(names_.begin(), names_.end(), is_reduced)) {
            reduction();
        }
        const Expression e = expression(3, false);
        std::string place;
        for (std::size_t i = 0; i < loops_.size(); ++i)
            place += (i > 0 ? ", " : "") + loops_[i].name;
        line("out[" + place + "] = " + e.text + " + " + (all.empty() ? "0 * " + anchor() : "bind"));
        result_ = e.value;
    }

    RandomKernel finish() {
        RandomKernel kernel;
        std::string head = "compute(";
        for (const std::vector<Operand>* all : {&operands_, &choosers_}) {
            for (const Operand& o : *all) {
                head += (kernel.operands.empty() ? "" : ", ") + o.name;
                kernel.operands.push_back(o.tensor);
            }
        }
        kernel.text = head + ") {\n" + text_ + "}\n";
        std::int64_t points = 1;
        for (const Loop& l : loops_) {
            kernel.shape.push_back(l.extent);
            points *= l.extent;
        }
        for (std::int64_t p = 0; p < points; ++p) {
            Environment env;
            env.loops.resize(loops_.size());
            std::int64_t rest = p;
            for (std::size_t i = loops_.size(); i-- > 0;) {
                env.loops[i] = rest % loops_[i].extent;
                rest /= loops_[i].extent;
            }
            for (const auto& step : steps_) step(env);
            kernel.expected.push_back(result_(env));
        }
        return kernel;
    }

    std::mt19937_64 random_;
    bool is_integer_ = false;
    bool has_depth_ = false;
    bool binds_depth_ = false;
    DType dtype_ = DType::Float32;
    double unit_ = 0;
    std::vector<Loop> loops_;
    Loop depth_;
    std::vector<Operand> operands_;

    /// Of integers that choose elements, bounds and branches.
    std::vector<Operand> choosers_;
    std::vector<std::string> names_;
    std::vector<std::function<void(Environment&)>> steps_;
    Evaluate result_;
    std::string text_;
    int indent_ = 0;
};

}  // namespace

RandomKernel random_kernel(std::uint64_t seed) { return Generator(seed).make(); }

std::string RandomKernel::wrong_element(const Tensor& result) const {
    if (result.shape() != shape) {
        return "expected shape " + to_string(shape) + ", got " + to_string(result.shape());
    }
    const std::vector<double> values = result.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto [value, error] = expected[i];
        // The bound is of first order in the rounding; the factor covers the rest.
        if (std::abs(values[i] - value) <= 4 * error + 1e-30) continue;
        return "element " + std::to_string(i) + ": expected " + std::to_string(value) + " within " +
               std::to_string(4 * error) + ", got " + std::to_string(values[i]);
    }
    return {};
}

}  // namespace quern::generator
