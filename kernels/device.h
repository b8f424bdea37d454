// The device that an engine computes on, the CPU or one of a backend's, with its memory and
// streams.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/types.h"

namespace nvllm {

struct BackendTable;
struct Context;

// How memory goes back to where it came from.
struct DeviceMemoryDeleter {
    const BackendTable* backend = nullptr;  // null: pages of the system
    int index = 0;
    bool pinned = false;
    size_t bytes = 0;
    void operator()(std::byte* memory) const;
};
using DeviceMemory = std::unique_ptr<std::byte[], DeviceMemoryDeleter>;

// A value: which device, and by whose functions. Those that take a stream take one of
// Stream's, and do their work in its order; on the CPU everything is done on return.
class ComputeDevice {
  public:
    ComputeDevice() = default;  // the CPU
    ComputeDevice(const BackendTable& backend, int index);
    // The one that a context computes on.
    explicit ComputeDevice(const Context& context);

    bool is_cpu() const { return backend_ == nullptr; }
    Device id() const { return id_; }
    const BackendTable* backend() const { return backend_; }  // null: the CPU

    // Throw does_not_fit. Memory of the CPU is zeroed. Only host memory, and on the CPU all memory,
    // is to be read and written but by ops and copies.
    DeviceMemory allocate(size_t bytes) const;
    DeviceMemory allocate_host(size_t bytes) const;

    // Host memory that allocate_host() gave may be used again when the stream has come so far,
    // other at once.
    void copy_in(void* stream, void* to, const void* from_host, size_t bytes) const;
    void copy_out(void* stream, void* to_host, const void* from, size_t bytes) const;
    void copy_within(void* stream, void* to, const void* from, size_t bytes) const;
    void clear(void* stream, void* memory, size_t bytes) const;
    void synchronize(void* stream) const;

  private:
    const BackendTable* backend_ = nullptr;
    Device id_;
};

// A stream of its own for as long as it lives; null on the CPU.
class Stream {
  public:
    explicit Stream(const ComputeDevice& device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void* stream() const { return stream_; }

  private:
    ComputeDevice device_;
    void* stream_ = nullptr;
};

// Something that happened in a stream; on the CPU everything has.
class Event {
  public:
    explicit Event(const ComputeDevice& device);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(void* stream);
    // Returns when the stream has come to where it was recorded last.
    void await() const;

  private:
    ComputeDevice device_;
    void* event_ = nullptr;
};

// A device in words that another process understands too.
struct DeviceChoice {
    std::string module_path;  // empty: the CPU
    int index = 0;
};

}  // namespace nvllm
