// SPDX-License-Identifier: Apache-2.0
// The $SYS tree: what mosquitto publishes, under its names, and ours beside it. Retained, QoS 2,
// published when changed, at multiples of the interval.
#pragma once
#include "loop/core.h"

// Takes a timer and publishes for the first time. interval_s 0: nothing, until it is set. The
// core's net, broker and server must be there. False: no timer is left.
bool sys_start(struct core *core, u32 interval_s);
// Every value as Prometheus text (exposition format 0.0.4), 32 KiB at most: urmqtt_ and the topic
// with '_' for what a metric's name must not hold.
void sys_metrics(struct core *core, struct writer *w);
void sys_set_interval(struct core *core, u32 interval_s);
// Certificates, CAs and CRLs of all listeners: logs, daily, each that is good for 30 days or less.
// Called hourly by sys itself and after a reload.
void sys_check_expiry(struct core *core);
