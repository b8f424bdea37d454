// The scheduler of a block's threads, in the orders of Settings.
#include "kernels/cuda_emulation/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <numeric>
#include <utility>

namespace nvllm::gpu::emulation {

__thread Thread* current = nullptr;

namespace {

// Polls by all threads together before they are taken for stuck.
constexpr int kMaxFruitlessPolls = 400'000;

std::string coordinates(const uint3& index) {
    return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
           std::to_string(index.z) + ")";
}

// "0-31, 40"
std::string ranges(const std::vector<int>& numbers) {
    std::string text;
    for (size_t i = 0; i < numbers.size();) {
        size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
        if (last > i) text += "-" + std::to_string(numbers[last]);
        i = last + 1;
    }
    return text;
}

// "shuffle_xor with mask 0x0000ffff at norm.cu:41"
std::string waiting_text(const Thread& thread) {
    char mask[32] = "";
    if (thread.waits_mask != 0)
        std::snprintf(mask, sizeof mask, " with mask 0x%08x", thread.waits_mask);
    return std::string(thread.waits_for) + mask + " at " + thread.waits_at.describe();
}

}  // namespace

bool Site::operator==(const Site& other) const {
    return line == other.line && column == other.column && std::strcmp(file, other.file) == 0;
}

std::string Site::describe() const {
    const char* name = std::strrchr(file, '/');
    return std::string(name ? name + 1 : file) + ":" + std::to_string(line);
}

Settings& settings() {
    static Settings wanted;
    return wanted;
}

Scheduler::Scheduler() : threads_(kMaxThreads) {}

Scheduler& Scheduler::instance() {
    static Scheduler scheduler;
    return scheduler;
}

void Scheduler::begin_launch(const Settings& wanted, const dim3& grid, const dim3& block) {
    settings_ = wanted;
    random_.seed(wanted.seed);
    draw_preemption();
    grid_ = grid;
    block_size_ = block;
    num_threads_ = static_cast<int>(block.x * block.y * block.z);
    warps_.resize(static_cast<size_t>(num_warps()));
    warp_order_.resize(static_cast<size_t>(num_warps()));
    std::iota(warp_order_.begin(), warp_order_.end(), 0);
}

uint32_t Scheduler::lanes_of(int warp) const {
    const int count = std::min(kWarpSize, num_threads_ - warp * kWarpSize);
    return count == kWarpSize ? kFullMask : (1u << count) - 1;
}

void Scheduler::prepare_block(const uint3& block) {
    num_ended_ = 0;
    yields_without_progress_ = 0;
    failure_.reset();
    thrown_ = nullptr;
    for (int warp = 0; warp < num_warps(); ++warp) {
        warps_[static_cast<size_t>(warp)] = {.ready = lanes_of(warp), .yielded = 0, .ended = 0};
    }
    for (int number = 0; number < num_threads_; ++number) {
        Thread& thread = this->thread(number);
        thread = {};
        const auto index = static_cast<unsigned>(number);
        thread.indices.thread = {index % block_size_.x, index / block_size_.x % block_size_.y,
                                 index / block_size_.x / block_size_.y};
        thread.indices.block = block;
        thread.indices.block_size = block_size_;
        thread.indices.grid_size = grid_;
        thread.number = number;
        thread.lane = number % kWarpSize;
        thread.warp = number / kWarpSize;
    }
}

void Scheduler::run_block(const uint3& block, Body body, void* argument) {
    body_ = body;
    argument_ = argument;
    prepare_block(block);
    while (num_ended_ < num_threads_ && !failure_ && !thrown_) {
        if (round() || failure_ || thrown_) continue;
        try {
            if (idle_work_ == nullptr || !idle_work_()) report_deadlock();
        } catch (const Fault& fault) {
            failure_ = fault.what();
        }
    }
    if (!failure_ && !thrown_) return;
    drop_threads();
    if (thrown_) std::rethrow_exception(thrown_);
    throw Fault(*failure_);
}

// One pass over the block. Whether any thread ran.
bool Scheduler::round() {
    for (Warp& warp : warps_) warp.yielded = 0;
    switch (settings_.order) {
        case Order::random:
            return run_one_at_random();
        case Order::greedy:
            return run_warps_greedily();
        case Order::in_order:
        case Order::reverse:
            break;
    }
    bool any = false;
    for (int i = 0; i < num_warps(); ++i) {
        any |= run_warp(settings_.order == Order::reverse ? num_warps() - 1 - i : i);
    }
    return any;
}

// Runs the lanes that could run when the pass came to this warp, once each.
bool Scheduler::run_warp(int warp) {
    const uint32_t ready = warps_[static_cast<size_t>(warp)].ready;
    for (uint32_t left = ready; left != 0 && !failure_ && !thrown_;) {
        const int lane = settings_.order == Order::reverse ? 31 - std::countl_zero(left)
                                                           : std::countr_zero(left);
        left &= ~(1u << lane);
        step(warp, lane);
    }
    return ready != 0;
}

bool Scheduler::run_one_at_random() {
    const auto first = static_cast<int>(random_() % static_cast<uint64_t>(num_warps()));
    for (int i = 0; i < num_warps(); ++i) {
        const int warp = (first + i) % num_warps();
        const uint32_t ready = warps_[static_cast<size_t>(warp)].ready;
        if (ready == 0) continue;
        const int turn = static_cast<int>(random_() % 32);
        step(warp, (std::countr_zero(std::rotr(ready, turn)) + turn) % kWarpSize);
        return true;
    }
    return false;
}

bool Scheduler::run_warps_greedily() {
    std::shuffle(warp_order_.begin(), warp_order_.end(), random_);
    bool any = false;
    for (const int number : warp_order_) {
        Warp& warp = warps_[static_cast<size_t>(number)];
        while ((warp.ready & ~warp.yielded) != 0 && !failure_ && !thrown_) {
            step(number, std::countr_zero(warp.ready & ~warp.yielded));
            any = true;
        }
    }
    return any;
}

void Scheduler::step(int warp, int lane) {
    Thread& thread = thread_of(warp, lane);
    current = &thread;
    if (thread.fiber == nullptr) {
        thread.fiber = take_fiber();
        thread.fiber->start(&Scheduler::thread_main, this);
    } else {
        thread.fiber->resume();
    }
    current = nullptr;
    if (thread.fiber->idle()) end_thread(thread);
}

void Scheduler::thread_main(void* scheduler) {
    auto* self = static_cast<Scheduler*>(scheduler);
    try {
        self->body_(self->argument_);
    } catch (...) {
        self->thrown_ = std::current_exception();
    }
}

void Scheduler::end_thread(Thread& thread) {
    idle_fibers_.push_back(thread.fiber);
    thread.fiber = nullptr;
    Warp& warp = warps_[static_cast<size_t>(thread.warp)];
    warp.ready &= ~(1u << thread.lane);
    warp.ended |= 1u << thread.lane;
    ++num_ended_;
    yields_without_progress_ = 0;
}

Fiber* Scheduler::take_fiber() {
    if (idle_fibers_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
        return fibers_.back().get();
    }
    Fiber* fiber = idle_fibers_.back();
    idle_fibers_.pop_back();
    return fiber;
}

void Scheduler::drop_threads() {
    for (int number = 0; number < num_threads_; ++number) {
        Thread& thread = this->thread(number);
        if (thread.fiber == nullptr) continue;
        thread.fiber->drop();
        idle_fibers_.push_back(thread.fiber);
        thread.fiber = nullptr;
    }
}

void Scheduler::wait(const char* what, const Site& where, uint32_t mask) {
    Thread& thread = *current;
    thread.waits_for = what;
    thread.waits_at = where;
    thread.waits_mask = mask;
    warps_[static_cast<size_t>(thread.warp)].ready &= ~(1u << thread.lane);
    thread.fiber->leave();
}

void Scheduler::wake(Thread& thread) {
    thread.waits_for = nullptr;
    warps_[static_cast<size_t>(thread.warp)].ready |= 1u << thread.lane;
    yields_without_progress_ = 0;
}

void Scheduler::give_way() {
    Thread& thread = *current;
    if (++yields_without_progress_ > kMaxFruitlessPolls) {
        fail(describe(thread) + " polls for something that no other thread brings about");
    }
    warps_[static_cast<size_t>(thread.warp)].yielded |= 1u << thread.lane;
    thread.fiber->leave();
}

void Scheduler::preempt() {
    draw_preemption();
    warps_[static_cast<size_t>(current->warp)].yielded |= 1u << current->lane;
    current->fiber->leave();
}

void Scheduler::draw_preemption() {
    until_preemption_ =
        settings_.preempt_every == 0 ? 0 : 1 + random_() % (2 * uint64_t{settings_.preempt_every});
}

void Scheduler::fail(const std::string& message) { throw Fault(message); }

void Scheduler::stop(std::string message) {
    failure_ = std::move(message);
    while (true) current->fiber->leave();
}

void Scheduler::fail_at(const Site& where, const std::string& message) {
    const std::string who = current ? ", " + describe(*current) : "";
    fail(where.describe() + who + ": " + message);
}

std::string Scheduler::describe(const Thread& thread) const {
    const bool flat = block_size_.y * block_size_.z == 1;
    return "block " + coordinates(thread.indices.block) + " thread " +
           (flat ? std::to_string(thread.number) : coordinates(thread.indices.thread));
}

void Scheduler::report_deadlock() {
    std::map<std::string, std::vector<int>> waiting;
    std::vector<int> ended;
    for (int number = 0; number < num_threads_; ++number) {
        const Thread& thread = this->thread(number);
        if (thread.fiber == nullptr) {
            ended.push_back(number);
        } else if (thread.waits_for != nullptr) {
            waiting[waiting_text(thread)].push_back(number);
        }
    }
    std::string text = "block " + coordinates(threads_[0].indices.block) + " cannot go on";
    for (const auto& [what, numbers] : waiting)
        text += "; threads " + ranges(numbers) + " wait for " + what;
    if (!ended.empty()) text += "; threads " + ranges(ended) + " have ended";
    throw Fault(text);
}

}  // namespace nvllm::gpu::emulation
