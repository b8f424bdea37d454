// Meetings of a warp's lanes, by (warp, mask).
#include "kernels/cuda_emulation/collective.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu::emulation {

namespace {

struct Open {
    Meeting meeting;
    const char* operation = nullptr;
    uint32_t arrived = 0;
};

// By warp: meetings that some lanes still wait in. Mostly none or one.
std::array<std::vector<Open>, kMaxThreads / kWarpSize> open_meetings;

std::string hexadecimal(uint32_t mask) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
}

void check_mask(uint32_t mask, const char* operation, const Site& where) {
    Scheduler& scheduler = Scheduler::instance();
    const std::string with = std::string(operation) + " with mask " + hexadecimal(mask) + ": ";
    if ((mask >> current->lane & 1u) == 0) {
        scheduler.fail_at(
            where, with + "lane " + std::to_string(current->lane) + " is not in its own mask");
    }
    const uint32_t missing = mask & ~scheduler.lanes_of(current->warp);
    if (missing != 0) {
        scheduler.fail_at(
            where, with + "lane " + std::to_string(std::countr_zero(missing)) + " does not exist");
    }
    const uint32_t ended = mask & scheduler.ended_lanes(current->warp);
    if (ended != 0) {
        scheduler.fail_at(where,
                          with + "lane " + std::to_string(std::countr_zero(ended)) + " has ended");
    }
}

void check_same(const Open& open, const char* operation, const Site& where) {
    if (std::strcmp(open.operation, operation) == 0 && open.meeting.where == where) return;
    Scheduler::instance().fail_at(
        where, "lanes of the same mask " + hexadecimal(open.meeting.mask) + " diverge: " +
                   operation + " here, " + open.operation + " at " + open.meeting.where.describe());
}

Open& find_or_open(std::vector<Open>& meetings, uint32_t mask, const char* operation,
                   const Site& where) {
    for (Open& open : meetings) {
        if (open.meeting.mask != mask) continue;
        check_same(open, operation, where);
        return open;
    }
    Open& open = meetings.emplace_back();
    open.meeting.mask = mask;
    open.meeting.where = where;
    open.operation = operation;
    return open;
}

}  // namespace

void reset_collectives() {
    for (auto& meetings : open_meetings) meetings.clear();
}

void meet(uint32_t mask, const char* operation, void* payload, Combine combine, const Site& where) {
    Scheduler& scheduler = Scheduler::instance();
    if ((mask & ~(scheduler.lanes_of(current->warp) & ~scheduler.ended_lanes(current->warp))) !=
            0 ||
        (mask >> current->lane & 1u) == 0) {
        check_mask(mask, operation, where);
    }
    auto& meetings = open_meetings[static_cast<size_t>(current->warp)];
    Open& open = find_or_open(meetings, mask, operation, where);
    open.meeting.payloads[current->lane] = payload;
    open.arrived |= 1u << current->lane;
    if (open.arrived != mask) {
        scheduler.wait(operation, where, mask);
        return;
    }
    Meeting meeting = open.meeting;
    open = meetings.back();
    meetings.pop_back();
    combine(meeting);
    for (uint32_t left = mask & ~(1u << current->lane); left != 0; left &= left - 1) {
        scheduler.wake(scheduler.thread_of(current->warp, std::countr_zero(left)));
    }
}

}  // namespace nvllm::gpu::emulation
