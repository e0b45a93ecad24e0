// SPDX-License-Identifier: Apache-2.0
// Topic names and filters (3.1.1 and 5.0, 4.7; shared subscriptions 5.0, 4.8.2). UTF-8 validity is
// the codec's business; these look at '/', '+', '#' and U+0000 only.
#pragma once
#include "base/bytes.h"

// At least one character, no wildcard [MQTT-4.7.1-1] [MQTT-4.7.3-1] [MQTT-3.3.2-2].
bool topic_name_valid(struct bytes name);
// Wildcards stand alone in their level, '#' only last [MQTT-4.7.1-1..2]; a filter that begins with
// $share/ has a non-empty group without wildcards and a filter [MQTT-4.8.2-1] [MQTT-4.8.2-2].
bool topic_filter_valid(struct bytes filter);
// Splits $share/GROUP/FILTER; false when the (valid) filter is no shared one.
bool topic_shared(struct bytes filter, struct bytes *group, struct bytes *inner);
// Does a valid, not shared filter match the name? Wildcards at the start do not match names that
// begin with '$' [MQTT-4.7.2-1].
bool topic_matches(struct bytes filter, struct bytes name);
bool topic_has_wildcard(struct bytes filter);
