// SPDX-License-Identifier: Apache-2.0
// TCP (RFC 9293), both sides. The owner is told by callbacks from net_poll and timers; it acts at
// once or marks itself ready and acts later in the turn. Segments leave in net_flush, so that
// everything one turn produced for a connection goes out as few large segments, with one
// acknowledgement.
//
// Back-pressure: bytes that the owner does not consume keep the window shut; tcp_room says how much
// it is worth producing. Nothing is produced ahead of need: room = min(cwnd, rwnd, 64 KiB) -
// unsent.
#pragma once
#include "net/net.h"

struct tcp_conn;

enum tcp_end {
  TCP_END_FIN,      // the peer sent FIN and everything before it was consumed
  TCP_END_RESET,    // RST from the peer
  TCP_END_TIMEOUT,  // retransmission or user timeout
  TCP_END_ABORTED,  // our own tcp_abort, or shutdown of the stack
};

struct tcp_listener_ops {
  // A server that speaks first hears of a connection when it is established; others when the client
  // has sent something.
  bool eager;
  // Asked at each SYN: false, and it is met with silence, like any that comes while we are busy.
  // NULL: there always is.
  bool (*room)(void *listener_user);
  // A connection is established. Sets *user (conn's owner from now on) and returns true, or false
  // to refuse: the connection is then reset.
  bool (*accept)(void *listener_user, struct tcp_conn *conn, void **user);
  // In-order bytes are waiting (also again after a partial tcp_consume once more arrive).
  void (*readable)(void *user, struct tcp_conn *conn);
  // There is room again after tcp_room had answered less than TCP_ROOM_LOW: that much, or any at
  // all with everything acknowledged (a peer with a tiny window).
  void (*writable)(void *user, struct tcp_conn *conn);
  // The receive side ended (FIN) or the connection died. After FIN the owner may still send and
  // must tcp_close; after the other ends `conn` is invalid when this returns. Called once for FIN
  // and once for death at most.
  void (*ended)(void *user, struct tcp_conn *conn, enum tcp_end why);
  // tcp_connect's connection is established; NULL for listeners. `ended` before it: there is no
  // connection (RESET: refused, TIMEOUT: no answer).
  void (*opened)(void *user, struct tcp_conn *conn);
};
#define TCP_ROOM_LOW 4096u
#define TCP_UNSENT_MAX 65536u

// Listens on all interfaces. ERR_EXISTS: port taken. ops must live for ever.
enum err tcp_listen(struct net *net, u16 port, const struct tcp_listener_ops *ops,
                    void *listener_user);

// Opens a connection to `address` from a port that we choose; the owner hears by
// ops->opened or ops->ended. ERR_NOT_FOUND: no interface leads there. ERR_NO_MEMORY. tcp_abort ends
// it at any time; tcp_send and tcp_close only once it is open.
enum err tcp_connect(struct net *net, struct ip_addr address, u16 port,
                     const struct tcp_listener_ops *ops, void *user, struct tcp_conn **out);

// Another owner from now on; `opened` and `accept` of its ops are not called any more.
void tcp_set_owner(struct tcp_conn *conn, const struct tcp_listener_ops *ops, void *user);

// The first contiguous piece of in-order bytes not yet consumed; empty when none. Writable: TLS
// decrypts in place. Valid until tcp_consume or the end of the callback/stage that called.
struct span tcp_peek(struct tcp_conn *conn);
// Copies up to out.len in-order bytes starting `skip` bytes in, without consuming; returns how
// many. For records and packets that lie across pieces.
u32 tcp_peek_copy(struct tcp_conn *conn, u32 skip, struct span out);
u32 tcp_readable(const struct tcp_conn *conn);  // all in-order bytes waiting
// The queue is full of small pieces: the window stays shut until some are consumed, so an owner
// that waits for more (the rest of a record) must copy and consume what is there.
bool tcp_stuffed(const struct tcp_conn *conn);
void tcp_consume(struct tcp_conn *conn, u32 len);

u32 tcp_room(struct tcp_conn *conn);
// Queues b's bytes. Never fails: the caller respects tcp_room (control bytes may exceed it by one
// buffer).
void tcp_send(struct tcp_conn *conn, struct txbuf *b CONSUMES);
// The last queued buffer, when bytes may still be appended to it (not full, nothing sent behind
// it), else NULL; after appending `n` bytes behind off+len call tcp_tail_commit(conn, n).
struct txbuf *tcp_tail(struct tcp_conn *conn);
void tcp_tail_commit(struct tcp_conn *conn, u32 len);
// Everything sent so far, then FIN. The connection belongs to the stack afterwards: no more
// callbacks.
void tcp_close(struct tcp_conn *conn CONSUMES);
// Probes an idle peer after two hours, nine times each 75 s, and ends with TIMEOUT when it does not
// answer (RFC 9293 3.8.4). Off at first. The connection is open and not closed by its owner.
void tcp_keepalive(struct tcp_conn *conn, bool on);
// Admission (admit.h) of an accepted connection, told by its owner: what needs work of ours is
// there; it waited so long for its turn; it has come in (before tcp_begin: it needed none). At its
// end a connection gives back what it holds.
void tcp_begin(struct tcp_conn *conn);
void tcp_waited(struct tcp_conn *conn, u64 delay_ns);
void tcp_through(struct tcp_conn *conn);
// RST now. No more callbacks.
void tcp_abort(struct tcp_conn *conn CONSUMES);

struct tcp_peer {
  struct ip_addr address, local;  // local: ours
  u16 port, local_port;
};
void tcp_peer(const struct tcp_conn *conn, struct tcp_peer *out);
u32 tcp_unacked(
    const struct tcp_conn *conn);  // bytes sent or queued, not acknowledged: slow consumers
