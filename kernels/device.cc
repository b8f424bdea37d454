// Hands everything to the backend, or does it at once on the CPU.
#include "kernels/device.h"

#include <cstring>

#include "kernels/backend.h"
#include "kernels/context.h"
#include "kernels/page_memory.h"

namespace nvllm {
namespace {

DeviceMemory take_host_pages(size_t bytes) {
    PageMemory pages = take_pages(bytes);
    if (pages == nullptr) {
        throw Error(ErrorKind::does_not_fit, "no memory for " + std::to_string(bytes) + " bytes");
    }
    // What was mapped, which is more than was asked for.
    const size_t mapped = pages.get_deleter().bytes;
    return {pages.release(), {.bytes = mapped}};
}

}  // namespace

void DeviceMemoryDeleter::operator()(std::byte* memory) const {
    if (backend == nullptr) {
        PageDeleter{bytes}(memory);
    } else if (pinned) {
        backend->release_pinned(index, memory);
    } else {
        backend->release(index, memory);
    }
}

ComputeDevice::ComputeDevice(const BackendTable& backend, int index)
    : backend_(&backend), id_{backend.kind, index} {}

ComputeDevice::ComputeDevice(const Context& context)
    : backend_(context.backend), id_(context.device) {}

DeviceMemory ComputeDevice::allocate(size_t bytes) const {
    if (is_cpu()) return take_host_pages(bytes);
    return {static_cast<std::byte*>(backend_->allocate(id_.index, bytes)),
            {backend_, id_.index, false, bytes}};
}

DeviceMemory ComputeDevice::allocate_host(size_t bytes) const {
    if (is_cpu()) return take_host_pages(bytes);
    return {static_cast<std::byte*>(backend_->allocate_pinned(id_.index, bytes)),
            {backend_, id_.index, true, bytes}};
}

void ComputeDevice::copy_in(void* stream, void* to, const void* from_host, size_t bytes) const {
    if (bytes == 0) return;
    if (is_cpu()) {
        std::memcpy(to, from_host, bytes);
    } else {
        backend_->copy(id_.index, stream, CopyDirection::to_device, to, from_host, bytes);
    }
}

void ComputeDevice::copy_out(void* stream, void* to_host, const void* from, size_t bytes) const {
    if (bytes == 0) return;
    if (is_cpu()) {
        std::memcpy(to_host, from, bytes);
    } else {
        backend_->copy(id_.index, stream, CopyDirection::to_host, to_host, from, bytes);
    }
}

void ComputeDevice::copy_within(void* stream, void* to, const void* from, size_t bytes) const {
    if (bytes == 0) return;
    if (is_cpu()) {
        std::memmove(to, from, bytes);
    } else {
        backend_->copy(id_.index, stream, CopyDirection::on_device, to, from, bytes);
    }
}

void ComputeDevice::clear(void* stream, void* memory, size_t bytes) const {
    if (bytes == 0) return;
    if (is_cpu()) {
        std::memset(memory, 0, bytes);
    } else {
        backend_->fill(id_.index, stream, memory, 0, bytes);
    }
}

void ComputeDevice::synchronize(void* stream) const {
    if (!is_cpu()) backend_->synchronize(id_.index, stream);
}

Stream::Stream(const ComputeDevice& device) : device_(device) {
    if (!device.is_cpu()) stream_ = device.backend()->make_stream(device.id().index);
}

Stream::~Stream() {
    if (stream_ == nullptr) return;
    try {
        device_.backend()->end_stream(device_.id().index, stream_);
    } catch (const Error&) {  // of a device that is lost nothing can be given back
    }
}

Event::Event(const ComputeDevice& device) : device_(device) {
    if (!device.is_cpu()) event_ = device.backend()->make_event(device.id().index, false);
}

Event::~Event() {
    if (event_ == nullptr) return;
    try {
        device_.backend()->end_event(device_.id().index, event_);
    } catch (const Error&) {  // of a device that is lost nothing can be given back
    }
}

void Event::record(void* stream) {
    if (event_ != nullptr) device_.backend()->record(device_.id().index, event_, stream);
}

void Event::await() const {
    if (event_ != nullptr) device_.backend()->await(device_.id().index, event_);
}

}  // namespace nvllm
