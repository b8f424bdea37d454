// What the routes of files and of batches share.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/server/http/typed_response.h"
#include "lib/server/routes/route_context.h"

namespace nvllm::server {

// Without --batch-dir.
HttpResponse batches_are_off();
// "?limit=N", from 1 to `most`; nothing when it is none of these.
std::optional<size_t> limit_of(const HttpRequest& request, size_t most, size_t usual);
HttpResponse wrong_limit(size_t most);
HttpResponse wrong_order();

// "?order=asc" is the oldest first; nothing when it is neither that nor "desc".
std::optional<bool> is_ascending(const HttpRequest& request);

// Of `items`, the newest first, those after "?after=ID".
template <typename PageType, typename Item>
HttpResponse page_response(std::vector<Item> items, const HttpRequest& request, size_t most,
                           size_t usual = SIZE_MAX) {
    const auto limit = limit_of(request, most, std::min(usual, most));
    if (!limit) return wrong_limit(most);
    const auto ascending = is_ascending(request);
    if (!ascending) return wrong_order();
    if (*ascending) std::ranges::reverse(items);
    auto begin = items.begin();
    if (const auto after = request.query_value("after")) {
        begin = std::find_if(items.begin(), items.end(),
                             [&](const Item& item) { return item.id == *after; });
        if (begin != items.end()) ++begin;
    }
    PageType page;
    const auto left = static_cast<size_t>(items.end() - begin);
    page.has_more = left > *limit;
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(left, *limit));
    page.data.assign(std::make_move_iterator(begin), std::make_move_iterator(end));
    return typed_response(page);
}

}  // namespace nvllm::server
