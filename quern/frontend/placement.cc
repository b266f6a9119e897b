#include "quern/frontend/placement.h"

#include <fmt/format.h>

#include <exception>

#include "quern/support/check.h"

namespace quern::frontend {

std::string refusal(std::string_view what) {
    return fmt::format("'{}' spreads work over several devices, which is not there yet", what);
}

std::string device_list() {
    std::string list = "the devices here are \"auto\"";
    for (const DeviceInfo& device : devices()) list += fmt::format(", \"{}\"", device.id);
    return list;
}

std::optional<std::string> absent_device(std::string_view id) {
    if (id == "auto") return std::nullopt;
    for (const DeviceInfo& device : devices()) {
        if (device.id == id) return std::nullopt;
    }
    return fmt::format("expected a device that is here, got \"{}\"", id);
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

}  // namespace

Device placed(const lang::Source& source, lang::NodeId first_decorator, const Device& otherwise) {
    const lang::Tree tree = source.tree();
    Device device = otherwise;
    for (lang::NodeId d = first_decorator; d >= 0; d = tree[d].next) {
        if (tree[d].kind != lang::Kind::Decorator) continue;
        const lang::NodeId name = tree[d].first, argument = tree[name].next;
        const std::string_view text = tree.text_of(name);
        if (text == "device" && argument >= 0) {
            const bool is_list = tree[argument].kind == lang::Kind::List;
            if (is_list && tree.child_count(argument) != 1) {
                refuse(source, lang::Code::E0600, argument, refusal("@device"));
            }
            const lang::NodeId string = is_list ? tree.child(argument, 0) : argument;
            const std::string_view quoted = tree.text_of(string);
            const std::string_view id = quoted.substr(1, quoted.size() - 2);
            if (auto message = absent_device(id)) {
                refuse(source, lang::Code::E0601, string, std::move(*message), device_list());
            }
            device = Device(id);
        }
        if (text == "parallel") {
            lang::Diagnostics diagnostics(source);
            diagnostics.add(lang::Code::W0707, tree[name].span,
                            "there is a single device: the work is not spread");
            diagnostics.raise();
        }
    }
    return device;
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

Device placed_compute(const lang::Source& source, lang::NodeId compute, const Device& otherwise) {
    const lang::Tree tree = source.tree();
    const Device in_body = placed(source, tree[tree.child(compute, 2)].first, otherwise);
    return placed(source, tree[tree.child(compute, 1)].first, in_body);
}

}  // namespace quern::frontend
