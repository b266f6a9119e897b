#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

/// Names where tensors live and kernels run: "interpreter", "cpu", "vulkan:0". "cpu:0" to "cpu:63"
/// are logical devices, which share the cores and the memory of "cpu": what runs on several devices
/// can be tried on one machine.
class Device {
public:
    /// The default device of the process: what set_default_device() said, else QUERN_DEVICE if it
    /// is set, else "auto". Throws DeviceError if QUERN_DEVICE names no device of this machine.
    Device();

    /// Throws DeviceError with E0601 and the devices there are if none has that id.
    /// "auto" is "cpu", or "interpreter" where "cpu" is not there.
    explicit Device(std::string_view id);

    const std::string& id() const noexcept { return id_; }

    /// True of "cpu" and of its logical devices.
    bool is_cpu() const noexcept;

    /// True of "vulkan:0" and so on, in the order of the system's drivers.
    bool is_vulkan() const noexcept;
    bool operator==(const Device&) const = default;

private:
    std::string id_;
};

/// What `quern devices` prints about one device.
struct DeviceInfo {
    std::string id;
    std::string type;
    std::string name;

    /// Hardware threads for a processor, 0 where memory is what counts.
    int cores = 0;

    /// Bytes, 0 where it is not known.
    std::int64_t memory = 0;
};

/// Lists every device of this machine, the interpreter last.
std::vector<DeviceInfo> devices();

/// A device that is not listed: its id, or "vulkan" where no driver has one.
struct MissingDevice {
    std::string id;
    std::string why;
};

/// What keeps devices of this machine from being listed.
std::vector<MissingDevice> missing_devices();

/// Waits until the device has done all that was launched on it, as timing wants. What reads
/// elements waits by itself. Throws DeviceLost.
void synchronize(const Device& device);

/// Sets the default device of the process. Throws DeviceError if there is no such device.
void set_default_device(std::string_view id);

}  // namespace quern
