// SPDX-License-Identifier: Apache-2.0
// For tests and fuzz targets: looks at the whole broker.
#pragma once
#include "broker/state.h"

// Asserts every invariant: lists, trees, counters, who holds what.
void broker_check(const struct broker *b);
