// Tests of the scratch arena: alignment, scopes, growth that is counted and kept.
#include "kernels/context.h"

#include <cstring>

#include "testing.h"

using nvllm::ScratchArena;

TEST_CASE("scratch memory is aligned, distinct and writable") {
    ScratchArena arena(4096);
    char* before = nullptr;
    for (const size_t bytes : {1u, 63u, 64u, 65u, 1000u}) {
        auto* memory = static_cast<char*>(arena.take(bytes));
        CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0);
        CHECK(memory > before);
        std::memset(memory, 1, bytes);
        before = memory + bytes - 1;
    }
    CHECK(arena.num_growths() == 0);
    CHECK(arena.peak_bytes() == 64 + 64 + 64 + 128 + 1024);
}

TEST_CASE("scopes give back what was taken inside them") {
    ScratchArena arena(1024);
    void* outside = arena.take(64);
    void* first = nullptr;
    {
        const ScratchArena::Scope scope(arena);
        first = arena.take(512);
        {
            const ScratchArena::Scope inner(arena);
            arena.take(4096);  // grows
        }
        CHECK(arena.num_growths() == 1);
    }
    CHECK(outside != first);
    CHECK(arena.take(512) == first);
    {
        const ScratchArena::Scope scope(arena);
        arena.take(4096);
    }
    CHECK(arena.num_growths() == 1);
}

TEST_CASE("the arena grows once for a step that needs more and keeps the larger size") {
    ScratchArena arena(128);
    for (int step = 0; step < 3; ++step) {
        arena.reset();
        for (int i = 0; i < 10; ++i) arena.take(100);
        if (step == 0) CHECK(arena.num_growths() > 0);
    }
    const size_t growths = arena.num_growths();
    const size_t reserved = arena.reserved_bytes();
    for (int step = 0; step < 10; ++step) {
        arena.reset();
        for (int i = 0; i < 10; ++i) arena.take(100);
    }
    CHECK(arena.num_growths() == growths);
    CHECK(arena.reserved_bytes() == reserved);
    CHECK(arena.peak_bytes() == 1280);
}

TEST_CASE("an arena may start empty") {
    ScratchArena arena;
    CHECK(arena.reserved_bytes() == 0);
    {
        const ScratchArena::Scope scope(arena);
        CHECK(arena.take(0) != nullptr);
    }
    CHECK(arena.num_growths() == 1);
    arena.take(64);
    CHECK(arena.num_growths() == 1);
}
