#include "quern/frontend/placement.h"

#include <fmt/format.h>

#include <exception>

#include "quern/runtime/device_options.h"
#include "quern/support/check.h"

namespace quern::frontend {

std::string device_list() {
    std::string list = "the devices here are \"auto\"";
    for (const DeviceInfo& device : devices()) list += fmt::format(", \"{}\"", device.id);
    return list;
}

std::optional<std::string> absent_device(std::string_view id) {
    if (has_device(id)) return std::nullopt;
    const std::string why = why_absent(id);
    return fmt::format("expected a device that is here, got \"{}\"{}{}", id,
                       why.empty() ? "" : ": ", why);
}

namespace {

[[noreturn]] void refuse(const lang::Source& source, lang::Code code, lang::NodeId at,
                         std::string message, std::string note = {}) {
    lang::Diagnostics diagnostics(source);
    auto entry = diagnostics.add(code, source.nodes[std::size_t(at)].span, std::move(message));
    if (!note.empty()) entry.note(std::move(note));
    diagnostics.raise();
    QUERN_CHECK(false, "an error is raised");
    std::terminate();
}

/// The decorators of one list that place work; -1 where there is none.
struct Placing {
    lang::NodeId device = -1;
    lang::NodeId parallel = -1;
};

Placing placing(const lang::Tree& tree, lang::NodeId first_decorator) {
    Placing found;
    for (lang::NodeId d = first_decorator; d >= 0; d = tree[d].next) {
        if (tree[d].kind != lang::Kind::Decorator) continue;
        const std::string_view text = tree.text_of(tree[d].first);
        if (text == "device") found.device = d;
        if (text == "parallel") found.parallel = d;
    }
    return found;
}

/// The devices that the argument of @device names.
std::vector<Device> devices_of(const lang::Source& source, lang::NodeId argument) {
    const lang::Tree tree = source.tree();
    std::vector<lang::NodeId> strings;
    if (tree[argument].kind == lang::Kind::List) {
        for (lang::NodeId s = tree[argument].first; s >= 0; s = tree[s].next) strings.push_back(s);
    } else {
        strings.push_back(argument);
    }
    std::vector<Device> devices;
    for (const lang::NodeId string : strings) {
        const std::string_view quoted = tree.text_of(string);
        const std::string_view id = quoted.substr(1, quoted.size() - 2);
        if (auto message = absent_device(id)) {
            refuse(source, lang::Code::E0601, string, std::move(*message), device_list());
        }
        devices.emplace_back(id);
    }
    return devices;
}

}  // namespace

Placement placed(const lang::Source& source, lang::NodeId first_decorator,
                 const Placement& otherwise) {
    const lang::Tree tree = source.tree();
    const auto [device, parallel] = placing(tree, first_decorator);
    Placement placement = otherwise;
    const lang::NodeId argument = device < 0 ? -1 : tree[tree[device].first].next;
    if (argument >= 0) {
        std::vector<Device> named = devices_of(source, argument);
        if (named.empty()) return placement;
        placement.device = named[0];
        placement.others.assign(named.begin() + 1, named.end());
        placement.spread = named.size() > 1 ? Spread::Data : Spread::None;
        placement.span = tree[argument].span;
    }
    if (parallel < 0) return placement;
    const lang::NodeId name = tree[parallel].first;
    const bool is_model = tree[name].next >= 0 && tree.text_of(tree[name].next) == "model";
    placement.span = tree[name].span;
    if (!placement.others.empty()) {
        placement.spread = is_model ? Spread::Model : Spread::Data;
        return placement;
    }
    lang::Diagnostics diagnostics(source);
    diagnostics.add(lang::Code::W0707, placement.span,
                    "there is a single device: the work is not spread");
    diagnostics.raise();
    return placement;
}

bool is_async(const lang::Source& source, lang::NodeId first_decorator) {
    const lang::Tree tree = source.tree();
    for (lang::NodeId d = first_decorator; d >= 0; d = tree[d].next) {
        if (tree[d].kind == lang::Kind::Decorator && tree.text_of(tree[d].first) == "async") {
            return true;
        }
    }
    return false;
}

bool is_async_compute(const lang::Source& source, lang::NodeId compute) {
    const lang::Tree tree = source.tree();
    return is_async(source, tree[tree.child(compute, 1)].first) ||
           is_async(source, tree[tree.child(compute, 2)].first);
}

Placement placed_compute(const lang::Source& source, lang::NodeId compute,
                         const Placement& otherwise) {
    const lang::Tree tree = source.tree();
    const lang::NodeId header = tree[tree.child(compute, 1)].first;
    const lang::NodeId body = tree[tree.child(compute, 2)].first;
    // @parallel in one of them may speak of the devices of the other.
    const bool is_header_first = placing(tree, header).device >= 0;
    const Placement first = placed(source, is_header_first ? header : body, otherwise);
    return placed(source, is_header_first ? body : header, first);
}

}  // namespace quern::frontend
