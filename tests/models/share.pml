// SPDX-License-Identifier: Apache-2.0
// Proves of shared groups across cores (src/broker/cross_share.c): the owner keeps the group's
// queue, member cores pull with credits; every message is acknowledged by a client of exactly one
// member, also when a member goes with messages unacknowledged, as long as one member stays. A core
// asks for at most what its member has room for, so nothing waits behind a member that is full.
//   -DBUG_LOST     a member that goes does not give back what it has not acknowledged
//   -DBUG_CREDIT   the owner forgets the credits of a member that went: it sends to nobody
#define MESSAGES 3
#define CREDIT 2
#define OWNER 2

mtype = { PULL, MESSAGE, BACK, LEAVE };
chan to_owner = [12] of { mtype, byte, byte };
chan to_member[2] = [8] of { mtype, byte };
byte done[MESSAGES];
byte credit[2];
bit gone[2];

proctype owner() {
  chan queue = [8] of { byte };
  byte published, who, what;
end:
  do
  :: atomic { published < MESSAGES -> queue!published; published++ }
  :: atomic { nempty(queue) && credit[0] > 0 -> queue?what; credit[0]--; to_member[0]!MESSAGE,what }
  :: atomic { nempty(queue) && credit[1] > 0 -> queue?what; credit[1]--; to_member[1]!MESSAGE,what }
  :: atomic { to_owner?PULL,who,what -> if :: !gone[who] -> credit[who]++ :: else fi }
  :: atomic { to_owner?BACK,who,what -> queue!what }  // to the front; order among members is free
  :: atomic { to_owner?LEAVE,who,what -> gone[who] = 1;
#ifndef BUG_CREDIT
       credit[who] = 0
#endif
     }
  od
}

// i = 0 leaves at any moment; what is then on its way to it comes back too.
proctype member(byte i) {
  byte what, asked;
  chan unacked = [8] of { byte };
  bit left;
end:
  do
  :: atomic { !left && asked + len(unacked) < CREDIT -> to_owner!PULL,i,0; asked++ }
  :: atomic { to_member[i]?MESSAGE,what ->
       if
       :: left ->
#ifndef BUG_CREDIT
          to_owner!BACK,i,what
#endif
          skip
       :: else -> asked--; unacked!what
       fi
     }
  :: atomic { !left && nempty(unacked) -> unacked?what; done[what]++; assert(done[what] == 1) }
  :: atomic { i == 0 && !left -> left = 1;
       to_owner!LEAVE,i,0;
       do
       :: nempty(unacked) -> unacked?what;
#ifndef BUG_LOST
            to_owner!BACK,i,what
#endif
       :: empty(unacked) -> break
       od
     }
  od
}

init { atomic { run owner(); run member(0); run member(1) } }

active proctype monitor() {
end: timeout -> assert(done[0] == 1 && done[1] == 1 && done[2] == 1)
}
