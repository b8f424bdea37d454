// Files and sockets with snapshots.
#include "lib/view/snapshot_source.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/schedule/snapshot_json.h"

namespace nvllm::view {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{256} << 20;
constexpr int kPatienceMs = 10'000;

}  // namespace

Snapshot read_snapshot_file(const std::filesystem::path& path) {
    return snapshot_from_json(read_file(path, kMaxBytes), path.string());
}

LiveSnapshots::LiveSnapshots(const std::filesystem::path& socket)
    : name_(socket.string()), peer_(connect_to_unix_socket(socket)) {}

Snapshot LiveSnapshots::next(SnapshotDetail detail) {
    return snapshot_from_json(exchange(detail), name_);
}

std::string LiveSnapshots::next_line(SnapshotDetail detail) {
    std::string line = exchange(detail);
    snapshot_from_json(line, name_);
    return line;
}

std::string LiveSnapshots::exchange(SnapshotDetail detail) {
    const std::string line = detail == SnapshotDetail::full ? "snapshot\n" : "summary\n";
    if (::send(peer_.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) {
        throw Error(ErrorKind::unavailable, name_ + ": the engine has ended");
    }
    size_t searched = 0;
    while (true) {
        const size_t end = rest_.find('\n', searched);
        if (end != std::string::npos) {
            std::string answer = rest_.substr(0, end);
            rest_.erase(0, end + 1);
            return answer;
        }
        searched = rest_.size();
        pollfd polled{peer_.get(), POLLIN, 0};
        const int ready = ::poll(&polled, 1, kPatienceMs);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) throw Error(ErrorKind::unavailable, name_ + ": no answer in 10 s");
        std::array<char, 65536> buffer{};
        const ssize_t count = ::recv(peer_.get(), buffer.data(), buffer.size(), 0);
        if (count <= 0) throw Error(ErrorKind::unavailable, name_ + ": the engine has ended");
        rest_.append(buffer.data(), static_cast<size_t>(count));
        if (rest_.size() > kMaxBytes) {
            throw Error(ErrorKind::bad_data, name_ + ": an answer of more than 256 MiB");
        }
    }
}

}  // namespace nvllm::view
