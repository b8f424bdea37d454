// The generated text as a parser reads it, and the coroutines that read it: they wait where the
// text has not come yet.
//
// Coroutines run in a loop of the reader, so that neither their number nor their depth grows the
// stack. The first argument of every one is the TextReader.
#pragma once

// Clang 14, which builds the fuzz programs, knows coroutines only by their experimental names.
#if defined(__clang__) && __clang_major__ < 15 && !defined(__cpp_impl_coroutine)
#define __cpp_impl_coroutine 201902L
#endif
#include <coroutine>
#if defined(__clang__) && __clang_major__ < 15
namespace std::experimental {
using std::coroutine_handle;
using std::coroutine_traits;
}  // namespace std::experimental
#endif
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace nvllm::output {

class TextReader {
  public:
    // What a coroutine waits for: `bytes` unread ones, or to know whether `literal` comes next.
    class Wait {
      public:
        Wait(TextReader& in, size_t bytes, std::string_view literal)
            : in_(in), bytes_(bytes), literal_(literal) {}
        bool await_ready() const { return decided(); }
        void await_suspend(std::coroutine_handle<> waiting);
        // Whether they are there; a literal has been read then.
        bool await_resume();
        bool decided() const;

      private:
        TextReader& in_;
        size_t bytes_;
        std::string_view literal_;
    };

    // co_await in.has(n): whether there are n unread bytes, now or later.
    Wait has(size_t bytes) { return {*this, bytes, {}}; }
    // co_await in.take(s): reads `s` if it comes next. `s` must outlive the waiting.
    Wait take(std::string_view literal) { return {*this, 0, literal}; }

    std::string_view unread() const { return std::string_view(text_).substr(next_); }
    char peek() const { return text_[next_]; }
    void skip(size_t bytes) { next_ += bytes; }
    bool ended() const { return ended_; }
    // Whether a coroutine was told, since reset_met_end(), that the text ends too early for what it
    // waited for.
    bool met_end() const { return met_end_; }
    void reset_met_end() { met_end_ = false; }

    // Positions count from the start of the whole text. What lies before `keep_from` may be gone.
    size_t position() const { return dropped_ + next_; }
    std::string_view since(size_t position) const {
        return std::string_view(text_).substr(position - dropped_, dropped_ + next_ - position);
    }
    void rewind(size_t position) { next_ = position - dropped_; }
    // Nothing before here is asked for again.
    void forget();

    // Appends and lets the coroutines read on, until they want more than there is.
    void push(std::string_view text);
    void end();

    // Of the coroutines: who runs next.
    void run_next(std::coroutine_handle<> coroutine) { runnable_ = coroutine; }
    void run();

  private:
    std::string text_;
    size_t next_ = 0;
    size_t dropped_ = 0;
    bool ended_ = false;
    bool met_end_ = false;
    std::coroutine_handle<> runnable_;
    std::coroutine_handle<> waiting_;
    const Wait* wait_ = nullptr;
};

// A coroutine that reads and returns a T.
template <typename T>
class [[nodiscard]] Reading {
  public:
    struct promise_type {
        template <typename... Arguments>
        explicit promise_type(TextReader& in, Arguments&&...) : reader(in) {}

        struct ToCaller {
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<promise_type> done) noexcept {
                promise_type& promise = done.promise();
                if (promise.caller) promise.reader.run_next(promise.caller);
            }
            void await_resume() const noexcept {}
        };
        Reading get_return_object() {
            return Reading(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        ToCaller final_suspend() noexcept { return {}; }
        void return_value(T result) { value = std::move(result); }
        void unhandled_exception() { failure = std::current_exception(); }

        TextReader& reader;
        std::coroutine_handle<> caller;
        T value{};
        std::exception_ptr failure;
    };

    Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Reading& operator=(Reading&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Reading() {
        if (handle_) handle_.destroy();
    }

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) {
        handle_.promise().caller = caller;
        handle_.promise().reader.run_next(handle_);
    }
    T await_resume() { return take(); }

    // Begins a coroutine that no other one awaits.
    void start() {
        handle_.promise().reader.run_next(handle_);
        handle_.promise().reader.run();
    }
    bool done() const { return handle_.done(); }
    // REQUIRES: done(). Throws what the coroutine threw.
    T take() {
        if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
        return std::move(handle_.promise().value);
    }

  private:
    explicit Reading(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

// Reads white space; whether a byte follows it.
Reading<bool> skip_space(TextReader& in);
// Reads up to the first of `end`, and it; what stood before it is appended to `before`. False where
// it does not come within `max_bytes`.
Reading<bool> read_until(TextReader& in, std::string_view end, std::string& before,
                         size_t max_bytes);

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
std::string_view trimmed(std::string_view text);

}  // namespace nvllm::output
