#include <deque>

#include "tests/generator/row_text.h"

namespace quern::generator {

namespace {

class RowGenerator : RowText {
public:
    explicit RowGenerator(std::uint64_t seed) : RowText(seed) {}

    RandomKernel make() {
        constexpr DType all[] = {DType::Float32, DType::Float32,  DType::Float16,
                                 DType::Float64, DType::BFloat16, DType::Int64};
        dtype_ = all[pick(0, 5)];
        rows_ = pick(1, 3);
        const std::vector<std::int64_t> shape = some_shape();
        operand("x", shape, true);
        operand("y", {pick(1, 40)}, false);
        chooser();
        out_ = arrays_.size();
        arrays_.push_back({"out", shape, true, {}});
        switch (pick(0, 2)) {
            case 0:
                line("@kernel fused");
                return finish(each_row([&] { return phases(); }));
            case 1:
                line("@kernel custom");
                return finish(each_row([&] { return statements(); }));
            default:
                line("@kernel custom");
                return finish(each_point());
        }
    }

private:
    template <class Body>
    Run each_row(const Body& body) {
        line("for b in 0..rows:");
        return indented(body);
    }

    // Points of one element each

    Run each_point() {
        const std::vector<std::int64_t> shape = arrays_[out_].shape;
        std::string loops = "for b in 0..rows";
        std::vector<Index> at;
        for (std::size_t slot = 0; slot < shape.size(); ++slot) {
            const std::string name = "i" + std::to_string(slot);
            loops += ", " + name + " in 0.." + std::to_string(shape[slot]);
            variables_.push_back({name, 0, shape[slot] - 1});
            at.push_back({name, [=](const Point& p) { return p.loops[slot]; }});
        }
        line(loops + ":");
        const Run point = indented([&] {
            std::vector<Run> all;
            for (int n = pick(1, 4); n > 0; --n) all.push_back(named());
            const auto result = [&] { return store(out_, at, value(1)); };
            all.push_back(chance(0.3) ? branch(result, 1) : result());
            return sequence(std::move(all));
        });
        return [=, this](Point& p) {
            for (std::int64_t i = 0; i < arrays_[out_].size(); ++i) {
                p.loops =
                    shape.size() == 1 ? std::vector{i} : std::vector{i / shape[1], i % shape[1]};
                point(p);
            }
        };
    }

    /// A value that has a name from here on.
    Run named() {
        const std::string name = "n" + std::to_string(sums_++);
        if (chance(0.3)) {
            const Bound number = some_bound(pick(1, kLongest));
            auto* const now = &counts_.emplace_back();
            line("let " + name + " = " + number.index.text);
            numbers_.push_back({{name, [=](const Point&) { return *now; }},
                                number.low,
                                number.high,
                                number.is_of_data});
            return [=](Point& p) { *now = number.index.at(p); };
        }
        double* const now = &totals_.emplace_back();
        const auto set = [&](const std::string& word, const Value& v) -> Run {
            const Value bounded = within_bounds(v);
            line(word + name + " = " + bounded.text);
            return [=](Point& p) { *now = bounded.of(p); };
        };
        std::vector<Run> all;
        if (chance(0.6)) {
            const auto [run, sum] = reduction();
            all = {run, set("let ", chance(0.5) ? sum : value(0, sum))};
        } else if (chance(0.5)) {
            all = {set("let ", value(1))};
        } else {
            const int start = pick(-9, 9);
            line("var " + name + " = " + begun(start));
            all = {[=](Point&) { *now = start; }, branch([&] { return set("", value(1)); })};
        }
        names_.push_back({name, [=](const Point&) { return *now; }});
        return sequence(std::move(all));
    }

    // Statements that use the row of `out` in any order

    Run statements() {
        const Array& out = arrays_[out_];
        std::vector<Index> last;
        for (const std::int64_t extent : out.shape) {
            last.push_back({std::to_string(extent - 1), [=](const Point&) { return extent - 1; }});
        }
        // Says how large it is.
        std::vector<Run> all = {store(out_, last, some_element()), fill(out_)};
        readable_.push_back(out_);
        for (int n = pick(2, 5); n > 0; --n) all.push_back(statement(2));
        return sequence(std::move(all));
    }

    /// Each element of an array, in order.
    Run fill(std::size_t number) {
        std::vector<Index> at;
        const std::function<Run()> inner = [&]() -> Run {
            const Array& array = arrays_[number];
            if (at.size() == array.shape.size()) return store(number, at, value(1));
            return loop(0, array.shape[at.size()], 1, [&] {
                const std::size_t slot = variables_.size() - 1;
                at.push_back(
                    {variables_.back().name, [=](const Point& p) { return p.loops[slot]; }});
                return inner();
            });
        };
        return inner();
    }

    Run some_store() { return store_at(result_place()); }

    Run store_at(const std::vector<Index>& at) {
        if (chance(0.3)) return store(out_, at, value(pick(0, 1), element(out_, at)));
        // Between stores alone lanes have less reason to meet.
        const std::vector<std::size_t> all = readable_;
        if (chance(0.4)) std::erase(readable_, out_);
        const Run run = store(out_, at, value(pick(0, 1)));
        readable_ = all;
        return run;
    }

    /// One row after the other, each some elements behind the one before: lanes write what others
    /// wrote.
    Run shifted_stores() {
        const std::int64_t extent = arrays_[out_].shape.back(), factor = pick(1, 2);
        const std::int64_t times = pick(2, 4), count = (extent - times) / factor + 1;
        if (extent < times) return some_store();
        return loop(0, times, 1, [&] {
            const std::size_t outer = variables_.size() - 1;
            return loop(0, count, 1, [&] {
                const std::string inner = variables_[outer + 1].name;
                std::vector<Index> at = result_place();
                at.back() = {
                    (factor == 2 ? "2 * " + inner : inner) + " + " + variables_[outer].name,
                    [=](const Point& p) { return factor * p.loops[outer + 1] + p.loops[outer]; }};
                return store_at(at);
            });
        });
    }

    template <class Body>
    Run some_loop(const Body& body) {
        const std::int64_t step = chance(0.8) ? 1 : pick(2, 5);
        const std::int64_t most = chance(0.5) ? arrays_[out_].shape.back() : pick(1, 40);
        Bound high = known(most), low = known(chance(0.7) ? 0 : pick(0, int(most) - 1));
        if (chance(0.4)) high = some_bound(most);
        if (chance(0.15)) low = some_bound(most);
        if (low.low >= high.high) return loop(0, most, step, body);
        return loop(low, high, step, body);
    }

    Run statement(int depth) {
        const bool may_nest = depth > 0 && work_ < kMuch;
        switch (pick(may_nest ? 0 : 5, 9)) {
            case 0:
            case 1:
                // Whose iterations come one after the other.
                return loop(0, pick(2, 4), 1, [&] {
                    std::vector<Run> all;
                    for (int n = pick(1, 3); n > 0; --n) all.push_back(statement(depth - 1));
                    return sequence(std::move(all));
                });
            case 2:
                return chance(0.5) ? shifted_stores()
                                   : branch([&] { return statement(depth - 1); });
            case 3:
                return some_loop([&] { return stored_reduction(); });
            case 4:
                return some_loop([&] { return some_loop([&] { return some_store(); }); });
            case 5:
                return stored_reduction();
            case 6:
                return some_store();
            case 7:
                return some_loop([&] { return branch([&] { return some_store(); }); });
            default:
                return some_loop([&] {
                    std::vector<Run> all = {some_store()};
                    if (chance(0.4)) all.push_back(some_store());
                    return sequence(std::move(all));
                });
        }
    }

    /// The sum or an extreme of some elements, or what depends on their order, and its value then.
    std::pair<Run, Value> reduction() {
        enum {
            Sum,
            Max,
            Min,
            Order
        } const kind{pick(0, 1) == 0 ? Sum
                     : chance(0.5)   ? Order
                     : chance(0.5)   ? Max
                                     : Min};
        const std::string name = "s" + std::to_string(sums_++);
        const int start = kind == Max ? -kMost : kind == Min ? kMost : 0;
        const std::string first = std::to_string(start) + (is_floating(dtype_) ? ".0" : "");
        line("var " + name + " = " + (kind == Sum ? first : begun(start)));
        double* const total = &totals_.emplace_back();
        const Value so_far{name, [=](const Point&) { return *total; }};
        const auto contribute = [&]() -> Run {
            const Value added = chance(0.2) ? value(0) : some_element();
            const auto next = [=](const Point& p) {
                const double x = added.of(p);
                switch (kind) {
                    case Sum:
                        return *total + x;
                    case Max:
                        return std::max(*total, x);
                    case Min:
                        return std::min(*total, x);
                    default:
                        return std::clamp(*total + x, -double(kMost), double(kMost));
                }
            };
            const Value ordered = within_bounds({"(" + name + " + " + added.text + ")", nullptr});
            line(kind == Sum     ? name + " += " + added.text
                 : kind == Order ? name + " = " + ordered.text
                                 : name + " = " + (kind == Max ? "max(" : "min(") + name + ", " +
                                       added.text + ")");
            return [=](Point& p) { *total = next(p); };
        };
        const auto maybe = [&] { return chance(0.2) ? branch(contribute) : contribute(); };
        // Two loops, of which the inner one may end where the outer one says.
        const Run inside = chance(0.3) && work_ <= kMuch
                               ? loop(0, pick(1, 20), 1, [&] { return some_loop(maybe); })
                           : chance(0.5) ? loop(0, pick(1, 20), 1, maybe)
                                         : some_loop(maybe);
        const Run all = [=](Point& p) {
            *total = start;
            inside(p);
        };
        return {all, so_far};
    }

    Run stored_reduction() {
        const auto [run, value] = reduction();
        const std::vector<Index> at = result_place();
        const Value before = element(out_, at);
        const Value both{"(" + before.text + " + " + value.text + ")",
                         [=](const Point& p) { return before.of(p) + value.of(p); }};
        return sequence({run, store(out_, at, chance(0.5) ? both : value)});
    }

    // Statements that use shared variables, with barriers between them

    Run phases() {
        std::vector<Run> all;
        std::vector<std::size_t> shared;
        const auto declare = [&] {
            const std::size_t number = arrays_.size();
            arrays_.push_back({"t" + std::to_string(number), some_shape(), false, {}});
            line("shared var " + arrays_.back().name + "[" + sizes(arrays_.back().shape) +
                 "]: " + std::string(to_string(dtype_)));
            all.push_back(fill(number));
            line("barrier()");
            readable_.push_back(number);
            shared.push_back(number);
        };
        const auto phase = [&](std::size_t number) {
            const auto at = std::ranges::find(readable_, number);
            // Of the array itself only the element that is written.
            readable_.erase(at);
            const Run run = rewrite(number);
            readable_.push_back(number);
            line("barrier()");
            return run;
        };
        declare();
        for (int n = pick(1, 5); n > 0; --n) {
            if (chance(0.4)) {
                declare();
            } else if (chance(0.4)) {
                all.push_back(loop(0, pick(2, 4), 1, [&] {
                    std::vector<Run> inside;
                    for (int m = pick(1, 3); m > 0; --m) {
                        inside.push_back(phase(shared[pick_of(shared.size())]));
                    }
                    return sequence(std::move(inside));
                }));
            } else {
                all.push_back(phase(shared[pick_of(shared.size())]));
            }
            // What nobody reads any more may make room.
            if (shared.size() > 1 && chance(0.4)) {
                readable_.erase(std::ranges::find(readable_, shared.front()));
                shared.erase(shared.begin());
            }
        }
        all.push_back(fill(out_));
        return sequence(std::move(all));
    }

    /// Elements of an array, each from what it was and from others.
    Run rewrite(std::size_t number) {
        const std::vector<std::int64_t> shape = arrays_[number].shape;
        const bool is_turned = chance(0.2), is_part = chance(0.3);
        std::vector<Index> at;
        const std::function<Run()> inner = [&]() -> Run {
            const std::size_t axis = at.size();
            if (axis == shape.size()) {
                const bool reads = chance(0.6);
                const auto with = reads ? std::optional(element(number, at)) : std::nullopt;
                const auto body = [&] { return store(number, at, value(pick(0, 1), with)); };
                return chance(0.2) ? branch(body) : body();
            }
            const std::int64_t last = shape[axis] - 1;
            return loop(is_part ? last / 3 : 0, last + 1, 1, [&] {
                const std::size_t slot = variables_.size() - 1;
                const std::string name = variables_.back().name;
                if (is_turned) {
                    at.push_back({std::to_string(last) + " - " + name,
                                  [=](const Point& p) { return last - p.loops[slot]; }});
                } else {
                    at.push_back({name, [=](const Point& p) { return p.loops[slot]; }});
                }
                return inner();
            });
        };
        return inner();
    }

    int sums_ = 0;

    /// What names stand for, at the point that runs.
    std::deque<double> totals_;
    std::deque<std::int64_t> counts_;
};

}  // namespace

RandomKernel random_row_kernel(std::uint64_t seed) { return RowGenerator(seed).make(); }

}  // namespace quern::generator
