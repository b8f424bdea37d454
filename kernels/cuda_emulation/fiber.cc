// Fibers over Boost.Context, with the marks that AddressSanitizer needs at every switch.
#include "kernels/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define NVLLM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NVLLM_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef NVLLM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace nvllm::gpu::emulation {

namespace {

constexpr size_t kGuardBytes = 4096;
constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kColourBytes = 192;
constexpr size_t kColours = 21;

// Boost frees a fiber's stack through its allocator; this one belongs to the Fiber.
struct KeptStack {
    void deallocate(boost::context::stack_context&) {}
};

// Ends the life of a fiber's handle without unwinding its stack.
void forget(boost::context::fiber fiber) {
    alignas(boost::context::fiber) std::byte grave[sizeof(boost::context::fiber)];
    new (grave) boost::context::fiber(std::move(fiber));
}

}  // namespace

struct Fiber::Switch {
    boost::context::fiber inside;   // the suspended body
    boost::context::fiber outside;  // who runs it
#ifdef NVLLM_ADDRESS_SANITIZER
    void* inside_frames = nullptr;
    void* outside_frames = nullptr;
    const void* outside_bottom = nullptr;
    size_t outside_bytes = 0;
#endif
};

Fiber::Fiber(size_t colour) : switch_(std::make_unique<Switch>()) {
    void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0)
        throw std::bad_alloc();
    mapping_ = static_cast<std::byte*>(memory);
    top_ = mapping_ + kGuardBytes + kStackBytes - colour % kColours * kColourBytes;
}

Fiber::~Fiber() {
    forget(std::move(switch_->inside));
    munmap(mapping_, kGuardBytes + kStackBytes);
}

bool Fiber::contains(const void* address) const {
    return address >= mapping_ && address < mapping_ + kGuardBytes + kStackBytes;
}

void Fiber::start(Body body, void* argument) {
    body_ = body;
    argument_ = argument;
    if (!switch_->inside) {
        boost::context::stack_context stack;
        stack.sp = top_;
        stack.size = static_cast<size_t>(top_ - mapping_) - kGuardBytes;
        switch_->inside = boost::context::fiber(
            std::allocator_arg, boost::context::preallocated(top_, stack.size, stack), KeptStack{},
            [this](boost::context::fiber&& outside) {
                switch_->outside = std::move(outside);
                loop();
                return std::move(switch_->outside);
            });
    }
    enter();
}

void Fiber::resume() { enter(); }

void Fiber::enter() {
#ifdef NVLLM_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&switch_->outside_frames, mapping_ + kGuardBytes,
                                   static_cast<size_t>(top_ - mapping_) - kGuardBytes);
#endif
    switch_->inside = std::move(switch_->inside).resume();
#ifdef NVLLM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(switch_->outside_frames, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#ifdef NVLLM_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&switch_->inside_frames, switch_->outside_bottom,
                                   switch_->outside_bytes);
#endif
    switch_->outside = std::move(switch_->outside).resume();
#ifdef NVLLM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(switch_->inside_frames, &switch_->outside_bottom,
                                    &switch_->outside_bytes);
#endif
}

// Never ends: between two bodies the fiber waits in leave().
void Fiber::loop() {
#ifdef NVLLM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, &switch_->outside_bottom, &switch_->outside_bytes);
#endif
    while (true) {
        body_(argument_);
        body_ = nullptr;
        leave();
    }
}

void Fiber::drop() {
    forget(std::move(switch_->inside));
    switch_->inside = {};
    body_ = nullptr;
#ifdef NVLLM_ADDRESS_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(mapping_ + kGuardBytes, kStackBytes);
#endif
}

}  // namespace nvllm::gpu::emulation
