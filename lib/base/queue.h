// A bounded queue by which threads hand each other plain data.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/error.h"

namespace nvllm {

// Any number of producers and consumers. Closing refuses what comes and lets consumers take what is
// there.
template <typename T>
class BoundedQueue {
  public:
    // REQUIRES: capacity > 0.
    explicit BoundedQueue(size_t capacity) : capacity_(capacity) {
        NVLLM_CHECK(capacity > 0, "a queue needs space for one item");
    }
    BoundedQueue(const BoundedQueue&) = delete;
    BoundedQueue& operator=(const BoundedQueue&) = delete;

    // Waits for space. False, and the item is dropped, when the queue is or becomes closed.
    bool push(T item) {
        std::unique_lock lock(mutex_);
        has_space_.wait(lock, [&] { return is_closed_ || items_.size() < capacity_; });
        return add(std::move(item));
    }

    // Does not wait: false when the queue is full or is closed, and `item` is as before.
    bool try_push(T&& item) {
        const std::lock_guard lock(mutex_);
        if (items_.size() >= capacity_) return false;
        return add(std::move(item));
    }

    // Waits for an item. Empty when the queue is closed and nothing is left.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        has_item_.wait(lock, [&] { return is_closed_ || !items_.empty(); });
        return take();
    }

    // Waits at most so long; empty then too.
    template <typename Rep, typename Period>
    std::optional<T> pop_for(std::chrono::duration<Rep, Period> limit) {
        std::unique_lock lock(mutex_);
        has_item_.wait_for(lock, limit, [&] { return is_closed_ || !items_.empty(); });
        return take();
    }

    // Does not wait.
    std::optional<T> try_pop() {
        const std::lock_guard lock(mutex_);
        return take();
    }

    void close() {
        {
            const std::lock_guard lock(mutex_);
            is_closed_ = true;
        }
        has_space_.notify_all();
        has_item_.notify_all();
    }

    bool closed() const {
        const std::lock_guard lock(mutex_);
        return is_closed_;
    }
    size_t size() const {
        const std::lock_guard lock(mutex_);
        return items_.size();
    }

  private:
    bool add(T&& item) {
        if (is_closed_) return false;
        items_.push_back(std::move(item));
        has_item_.notify_one();
        return true;
    }
    std::optional<T> take() {
        if (items_.empty()) return std::nullopt;
        std::optional<T> item(std::move(items_.front()));
        items_.pop_front();
        has_space_.notify_one();
        return item;
    }

    const size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable has_space_, has_item_;
    std::deque<T> items_;
    bool is_closed_ = false;
};

}  // namespace nvllm
