// A fiber: a stack of its own and the switch to it and back.
//
// Belongs to one thread of the operating system at a time. A fiber runs one body after another on
// the same stack. A body that will never be resumed is dropped without unwinding: what it owned is
// lost, so bodies own nothing.
#pragma once

#include <cstddef>
#include <memory>

namespace nvllm::gpu::emulation {

class Fiber {
  public:
    using Body = void (*)(void* argument);

    // Maps a stack with a guard page below it. `colour` shifts the stack's top, so that the stacks
    // of many fibers do not fall onto the same cache lines.
    explicit Fiber(size_t colour);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs body(argument) until it calls leave() or returns. Requires idle().
    void start(Body body, void* argument);
    // Goes on after the body's leave(). Requires not idle().
    void resume();
    // Called by the body: back to the caller of start() or resume().
    void leave();
    // No body is under way.
    bool idle() const { return body_ == nullptr; }
    // Forgets the body under way.
    void drop();
    // Whether `address` lies on this stack.
    bool contains(const void* address) const;

  private:
    struct Switch;
    void enter();
    void loop();

    std::byte* mapping_ = nullptr;
    std::byte* top_ = nullptr;
    Body body_ = nullptr;
    void* argument_ = nullptr;
    std::unique_ptr<Switch> switch_;
};

}  // namespace nvllm::gpu::emulation
