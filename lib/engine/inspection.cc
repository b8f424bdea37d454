// One thread, one poll loop, bounded buffers.
#include "lib/engine/inspection.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"
#include "lib/base/json.h"
#include "lib/schedule/snapshot_json.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;
using Text = std::shared_ptr<const std::string>;

// The interval between checks for a snapshot that is being made.
constexpr int kPollMs = 5;

std::string error_line(std::string_view message) {
    return "{\"error\":{\"message\":" + json_quoted(message) + ",\"type\":\"bad_data\"}}\n";
}

struct Connection {
    OwnedDescriptor peer;
    std::string input;                    // less than a line
    std::optional<SnapshotDetail> wants;  // its line was read, its answer is not made yet
    Text answer;                          // being written; no line is read meanwhile
    size_t num_written = 0;
    Clock::time_point since;  // the latest progress
    bool broken = false;
};

class Service {
  public:
    Service(int listener, int stop, SnapshotRequest request, const InspectionLimits& limits)
        : listener_(listener), stop_(stop), request_(std::move(request)), limits_(limits) {}

    void run() {
        while (wait()) {
            accept_all();
            for (Connection& connection : connections_) serve(connection);
            make_snapshots();
            drop_broken();
        }
    }

  private:
    // False when the server is to end.
    bool wait() {
        std::vector<pollfd> polled = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
        bool wanted = false;
        for (const Connection& connection : connections_) {
            wanted = wanted || connection.wants.has_value();
            // One that awaits its snapshot is not read: what else it sends stays with the system.
            short events = connection.wants ? 0 : POLLIN;
            if (connection.answer) events = POLLOUT;
            polled.push_back({connection.peer.get(), events, 0});
        }
        // A peer that went away wakes poll() at once, whatever is asked for.
        const int timeout = wanted ? kPollMs : 1000;
        if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) return false;
        size_t place = 2;
        for (Connection& connection : connections_) {
            if ((polled[place++].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 &&
                connection.wants) {
                connection.broken = true;
            }
        }
        return polled[0].revents == 0;
    }

    void accept_all() {
        for (int i = 0; i < limits_.max_connections; ++i) {
            OwnedDescriptor peer = accept_own_connection(listener_);
            if (!peer) return;
            if (static_cast<int>(connections_.size()) >= limits_.max_connections) {
                const std::string full = error_line("too many connections");
                (void)!::send(peer.get(), full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
                continue;
            }
            Connection& added = connections_.emplace_back();
            added.peer = std::move(peer);
            added.since = Clock::now();
        }
    }

    void serve(Connection& connection) {
        if (connection.answer) write(connection);
        if (!connection.answer && !connection.wants) read(connection);
        const bool is_idle = !connection.answer && connection.input.empty();
        const auto patience = is_idle ? limits_.idle : limits_.patience;
        if (!connection.wants && Clock::now() - connection.since > patience) {
            connection.broken = true;
        }
    }

    void read(Connection& connection) {
        std::array<char, 256> buffer{};
        const ssize_t count = ::recv(connection.peer.get(), buffer.data(), buffer.size(), 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            connection.broken = true;
        }
        if (count > 0) connection.input.append(buffer.data(), static_cast<size_t>(count));
        take_line(connection);
    }

    void take_line(Connection& connection) {
        const size_t end = connection.input.find('\n');
        if (end == std::string::npos) {
            if (connection.input.size() > limits_.max_line_bytes) connection.broken = true;
            return;
        }
        std::string line = connection.input.substr(0, end);
        connection.input.erase(0, end + 1);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        connection.since = Clock::now();
        if (line == "snapshot") {
            connection.wants = SnapshotDetail::full;
        } else if (line == "summary") {
            connection.wants = SnapshotDetail::without_tree;
        } else {
            give(connection, std::make_shared<const std::string>(
                                 error_line("say \"snapshot\" or \"summary\"")));
        }
    }

    void give(Connection& connection, Text text) {
        connection.wants.reset();
        connection.answer = std::move(text);
        connection.num_written = 0;
        connection.since = Clock::now();
        write(connection);
    }

    void write(Connection& connection) {
        const std::string& text = *connection.answer;
        const ssize_t count = ::send(connection.peer.get(), text.data() + connection.num_written,
                                     text.size() - connection.num_written, MSG_NOSIGNAL);
        if (count < 0) {
            connection.broken = errno != EAGAIN && errno != EINTR;
            return;
        }
        if (count > 0) connection.since = Clock::now();
        connection.num_written += static_cast<size_t>(count);
        if (connection.num_written < text.size()) return;
        connection.answer.reset();
        // A line that came with this one has its turn now.
        if (!connection.input.empty()) take_line(connection);
    }

    // One snapshot at a time, for all who wait for one of its kind.
    void make_snapshots() {
        if (!pending_.valid()) ask_engine();
        if (!pending_.valid()) return;
        if (pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
        Text text;
        try {
            text = std::make_shared<const std::string>(snapshot_to_json(pending_.get()) + "\n");
        } catch (const std::exception&) {
            text = std::make_shared<const std::string>(
                error_line("no snapshot: the engine is ending, or out of memory"));
        }
        for (Connection& connection : connections_) {
            if (connection.wants == pending_detail_ && !connection.broken) give(connection, text);
        }
    }

    void ask_engine() {
        if (Clock::now() - asked_ < limits_.between_snapshots) return;
        for (const Connection& connection : connections_) {
            if (!connection.wants || connection.broken) continue;
            pending_detail_ = *connection.wants;
            pending_ = request_(pending_detail_);
            asked_ = Clock::now();
            return;
        }
    }

    void drop_broken() {
        connections_.remove_if([](const Connection& connection) { return connection.broken; });
    }

    int listener_;
    int stop_;
    SnapshotRequest request_;
    InspectionLimits limits_;
    std::list<Connection> connections_;
    std::future<Snapshot> pending_;
    SnapshotDetail pending_detail_ = SnapshotDetail::full;
    Clock::time_point asked_{};
};

}  // namespace

std::string dump_text(const Snapshot& snapshot) { return snapshot_to_json(snapshot) + "\n"; }

InspectionServer::InspectionServer(const std::filesystem::path& path, SnapshotRequest request,
                                   const InspectionLimits& limits)
    : path_(path),
      listener_(listen_on_unix_socket(path)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!stop_) {
        ::unlink(path_.c_str());
        throw Error(ErrorKind::io, std::string("cannot make an eventfd: ") + std::strerror(errno));
    }
    try {
        thread_ = start_thread([this, request = std::move(request), limits]() mutable {
            Service(listener_.get(), stop_.get(), std::move(request), limits).run();
        });
    } catch (...) {
        ::unlink(path_.c_str());
        throw;
    }
}

InspectionServer::~InspectionServer() {
    const uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof(one));
    thread_.join();
    ::unlink(path_.c_str());
}

}  // namespace nvllm
