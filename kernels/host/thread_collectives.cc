// Ranks publish addresses, meet at a barrier, and copy or sum.
#include "kernels/host/thread_collectives.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/error.h"
#include "kernels/rank_sums.h"

namespace nvllm {
namespace {

// Loads of the barrier's word before a thread sleeps.
constexpr int kSpins = 2000;

// Returns on all ranks when all have come. When one has left instead, the others throw.
class Barrier {
  public:
    explicit Barrier(int num_ranks) : num_ranks_(num_ranks) {}

    void arrive() {
        const uint32_t turn = turn_of(state_.load());
        check();
        if (num_arrived_.fetch_add(1) + 1 == num_ranks_) {
            num_arrived_.store(0);
            state_.fetch_add(kOneTurn);
            state_.notify_all();
            return;
        }
        uint32_t state = state_.load();
        for (int i = 0; i < kSpins && turn_of(state) == turn; ++i) state = state_.load();
        for (; turn_of(state) == turn; state = state_.load()) {
            check();
            state_.wait(state);
        }
    }
    void abandon() {
        state_.fetch_or(kAbandoned);
        state_.notify_all();
    }
    void check() const {
        if ((state_.load() & kAbandoned) == 0) return;
        throw Error(ErrorKind::unavailable, "another rank has left the group of threads");
    }

  private:
    static constexpr uint32_t kAbandoned = 1;
    static constexpr uint32_t kOneTurn = 2;
    static uint32_t turn_of(uint32_t state) { return state / kOneTurn; }

    const int num_ranks_;
    std::atomic<int> num_arrived_ = 0;
    std::atomic<uint32_t> state_ = 0;  // turns, and whether a rank has left
};

// From one rank to another: a send waits until its message is taken.
class Mailbox {
  public:
    void put(const void* from, size_t bytes, const Barrier& group) {
        std::unique_lock lock(mutex_);
        from_ = from;
        bytes_ = bytes;
        is_full_ = true;
        changed_.notify_all();
        wait(lock, group, [this] { return !is_full_; });
    }
    void take(void* to, size_t bytes, const Barrier& group) {
        std::unique_lock lock(mutex_);
        wait(lock, group, [this] { return is_full_; });
        NVLLM_CHECK(bytes == bytes_, "a message is received with the size that was sent");
        std::memcpy(to, from_, bytes);
        is_full_ = false;
        changed_.notify_all();
    }
    void wake() {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
    }

  private:
    template <typename Condition>
    void wait(std::unique_lock<std::mutex>& lock, const Barrier& group, Condition condition) {
        while (!condition()) {
            group.check();
            changed_.wait(lock);
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const void* from_ = nullptr;
    size_t bytes_ = 0;
    bool is_full_ = false;
};

// What all ranks of a group share.
struct SharedGroup {
    explicit SharedGroup(int ranks)
        : num_ranks(ranks),
          barrier(ranks),
          values(static_cast<size_t>(ranks)),
          mailboxes(static_cast<size_t>(ranks * ranks)) {}

    Mailbox& mailbox(int from, int to) {
        return mailboxes[static_cast<size_t>(from * num_ranks + to)];
    }

    const int num_ranks;
    Barrier barrier;
    std::vector<void*> values;  // that ranks publish for one operation
    std::vector<Mailbox> mailboxes;
};

// Of one rank.
struct Member {
    std::shared_ptr<SharedGroup> shared;
    int rank = 0;
    uint64_t bytes_sent = 0;  // that other ranks read of its memory

    // Publishes an address; on return those of all ranks can be read, until finish().
    std::span<void* const> publish(const void* values) const {
        shared->values[static_cast<size_t>(rank)] = const_cast<void*>(values);
        shared->barrier.arrive();
        return shared->values;
    }
    void finish() const { shared->barrier.arrive(); }
    // So many to each other rank.
    void count_others(size_t bytes) {
        bytes_sent += bytes * static_cast<size_t>(shared->num_ranks - 1);
    }
};

Member& member_of(CollectiveGroup group) { return *reinterpret_cast<Member*>(group); }

const std::byte* row(const void* values, int index, size_t bytes) {
    return static_cast<const std::byte*>(values) + static_cast<size_t>(index) * bytes;
}
std::byte* row(void* values, int index, size_t bytes) {
    return static_cast<std::byte*>(values) + static_cast<size_t>(index) * bytes;
}

CollectivesLibrary look() { return {"threads", "", "", ""}; }

GroupId make_id() {
    static std::atomic<uint64_t> last = 0;
    GroupId id;
    const uint64_t number = ++last;
    std::memcpy(id.bytes.data(), &number, sizeof(number));
    return id;
}

// Groups that not all ranks have joined, by id.
struct Forming {
    std::shared_ptr<SharedGroup> group;
    int num_joined = 0;
};
struct FormingGroups {
    std::mutex mutex;
    std::map<std::array<uint8_t, 128>, Forming> groups;
};
FormingGroups& forming_groups() {
    static FormingGroups forming;
    return forming;
}

// The group of this id, which the first rank makes and the last one takes out of the table.
std::shared_ptr<SharedGroup> find_group(const GroupSetup& setup) {
    FormingGroups& forming = forming_groups();
    const std::lock_guard lock(forming.mutex);
    Forming& found = forming.groups[setup.id.bytes];
    if (found.group == nullptr) found.group = std::make_shared<SharedGroup>(setup.num_ranks);
    found.group->barrier.check();
    if (found.group->num_ranks != setup.num_ranks) {
        found.group->barrier.abandon();
        throw Error(ErrorKind::bad_config, "ranks join a group with different numbers of ranks");
    }
    std::shared_ptr<SharedGroup> group = found.group;
    if (++found.num_joined == setup.num_ranks) forming.groups.erase(setup.id.bytes);
    return group;
}

CollectiveGroup join(const GroupSetup& setup) {
    auto member = std::make_unique<Member>(Member{find_group(setup), setup.rank, 0});
    member->finish();
    return reinterpret_cast<CollectiveGroup>(member.release());
}

void leave(CollectiveGroup group) {
    const std::unique_ptr<Member> member(&member_of(group));
    member->shared->barrier.abandon();
    for (Mailbox& mailbox : member->shared->mailboxes) mailbox.wake();
}

// Each rank sums one slice for all: the others touch none of it.
void all_reduce(CollectiveGroup group, void*, DType dtype, void* values, int64_t count) {
    Member& member = member_of(group);
    const std::span<void* const> all = member.publish(values);
    const RankSlice slice = slice_of_rank(count, member.rank, member.shared->num_ranks);
    const std::vector<const void*> inputs(all.begin(), all.end());
    sum_in_rank_order(dtype, inputs, all, slice.first, slice.count);
    // Its values outside its slice to those that sum them, and its sums to all.
    member.bytes_sent +=
        static_cast<uint64_t>(count - slice.count + slice.count * (member.shared->num_ranks - 1)) *
        dtype_bytes(dtype);
    member.finish();
}

void all_gather(CollectiveGroup group, void*, const void* from, void* to, size_t bytes) {
    Member& member = member_of(group);
    member.count_others(bytes);
    const std::span<void* const> all = member.publish(from);
    for (int rank = 0; rank < member.shared->num_ranks; ++rank) {
        std::memmove(row(to, rank, bytes), all[static_cast<size_t>(rank)], bytes);
    }
    member.finish();
}

void all_to_all(CollectiveGroup group, void*, const void* from, void* to, size_t bytes) {
    Member& member = member_of(group);
    member.count_others(bytes);
    const std::span<void* const> all = member.publish(from);
    for (int rank = 0; rank < member.shared->num_ranks; ++rank) {
        const void* const theirs = all[static_cast<size_t>(rank)];
        std::memcpy(row(to, rank, bytes), row(theirs, member.rank, bytes), bytes);
    }
    member.finish();
}

// What a rank publishes for an exchange.
struct Parts {
    const std::byte* first;
    const size_t* bytes;
};

void exchange(CollectiveGroup group, void*, const void* from, const size_t* from_bytes, void* to,
              const size_t* to_bytes) {
    Member& member = member_of(group);
    const Parts own{static_cast<const std::byte*>(from), from_bytes};
    const std::span<void* const> all = member.publish(&own);
    auto* target = static_cast<std::byte*>(to);
    for (int rank = 0; rank < member.shared->num_ranks; ++rank) {
        const auto& theirs = *static_cast<const Parts*>(all[static_cast<size_t>(rank)]);
        const std::byte* part = theirs.first;
        for (int before = 0; before < member.rank; ++before) part += theirs.bytes[before];
        const size_t bytes = theirs.bytes[member.rank];
        NVLLM_CHECK(bytes == to_bytes[rank], "a part is received with the size that was sent");
        if (bytes > 0) std::memcpy(target, part, bytes);
        target += bytes;
        if (rank != member.rank) member.bytes_sent += from_bytes[rank];
    }
    member.finish();
}

void broadcast(CollectiveGroup group, void*, void* values, size_t bytes, int root) {
    Member& member = member_of(group);
    if (member.rank == root) member.count_others(bytes);
    const std::span<void* const> all = member.publish(values);
    if (member.rank != root) std::memcpy(values, all[static_cast<size_t>(root)], bytes);
    member.finish();
}

void send(CollectiveGroup group, void*, const void* from, size_t bytes, int to_rank) {
    Member& member = member_of(group);
    member.bytes_sent += bytes;
    member.shared->mailbox(member.rank, to_rank).put(from, bytes, member.shared->barrier);
}

void receive(CollectiveGroup group, void*, void* to, size_t bytes, int from_rank) {
    const Member& member = member_of(group);
    member.shared->mailbox(from_rank, member.rank).take(to, bytes, member.shared->barrier);
}

uint64_t bytes_sent(CollectiveGroup group) { return member_of(group).bytes_sent; }

}  // namespace

// A group that has no member yet is left to be found abandoned, with any number of ranks.
void abandon_thread_group(const GroupId& id) {
    FormingGroups& forming = forming_groups();
    const std::lock_guard lock(forming.mutex);
    Forming& found = forming.groups[id.bytes];
    if (found.group == nullptr) found.group = std::make_shared<SharedGroup>(0);
    found.group->barrier.abandon();
}

const CollectivesTable& thread_collectives() {
    static const CollectivesTable table{.name = "threads",
                                        .look = look,
                                        .make_id = make_id,
                                        .join = join,
                                        .leave = leave,
                                        .all_reduce = all_reduce,
                                        .all_gather = all_gather,
                                        .all_to_all = all_to_all,
                                        .exchange = exchange,
                                        .broadcast = broadcast,
                                        .send = send,
                                        .receive = receive,
                                        .bytes_sent = bytes_sent};
    return table;
}

}  // namespace nvllm
