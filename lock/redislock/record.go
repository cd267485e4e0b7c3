package redislock

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// A record is one string, not a hash: a hash with a value over 64 bytes is kept as a table
// by Redis and takes far more memory. A settled record takes its receipt and about 390 bytes,
// key and expiry included (measured on Redis 7.0: 690 MB for a million with receipts of 300
// bytes, 1.07 GB with receipts of 692). The first 99 bytes have fixed places, so that the
// scripts read them with string.sub; digests and ids are raw.
//
//	 1      version, '1'
//	 2      status digit, the number of intent.Status
//	 3      retry digit, the number of intent.Retry; '0' for none
//	 4      flags digit: 1 durable + 2 hot
//	 5..19  fence, decimal with leading zeros
//	20..51  key
//	52..83  fingerprint
//	84..99  claim id
//
// Then, only while started, 13 digits: the lease's deadline in ms on Redis' clock. Then the
// tail: one byte with the traceparent's length, the traceparent, and the receipt.
const (
	recordVersion = '1'
	fenceAt       = 4
	keyAt         = 19
	fingerprintAt = 51
	claimAt       = 83
	headLen       = 99
	fenceDigits   = keyAt - fenceAt
	deadlineLen   = 13

	flagDurable = 1
	flagHot     = 2

	maxFence       = 999_999_999_999_999 // 15 digits; exact as Lua's float64
	maxTraceparent = 255
)

var errRecord = errors.New("redislock: not a record of this version")

// appendHead writes the first 99 bytes.
func appendHead(b []byte, r *lock.Record) ([]byte, error) {
	if r.Fence > maxFence || r.Status > intent.Rejected || r.Retry > intent.RetryCorrected {
		return nil, fmt.Errorf("redislock: fence %d, status %d, retry %d do not fit a record", r.Fence, r.Status, r.Retry)
	}
	b = append(b, recordVersion, '0'+byte(r.Status), '0'+byte(r.Retry), flags(r.Durable, r.Hot))
	b = appendDecimal(b, r.Fence, fenceDigits)
	b = append(b, r.Key[:]...)
	b = append(b, r.Fingerprint[:]...)
	return append(b, r.ClaimID[:]...), nil
}

// appendState writes a whole record, the deadline of a started one as zeros.
func appendState(r *lock.Record) ([]byte, error) {
	b, err := appendHead(make([]byte, 0, headLen+deadlineLen+1+len(r.Traceparent)+len(r.Receipt)), r)
	if err != nil {
		return nil, err
	}
	if r.Status == intent.Started {
		b = appendDecimal(b, 0, deadlineLen)
	}
	return appendTail(b, r.Traceparent, r.Receipt), nil
}

// appendTail writes the tail. A label that is no traceparent is dropped: a label may be
// lost, a record may not.
func appendTail(b []byte, traceparent string, receipt []byte) []byte {
	if len(traceparent) > maxTraceparent {
		traceparent = ""
	}
	b = append(b, byte(len(traceparent)))
	b = append(b, traceparent...)
	return append(b, receipt...)
}

// parseRecord reads a record; now is Redis' clock in ms, to tell what is left of a lease.
func parseRecord(g intent.Guard, s string, now int64) (lock.Record, error) {
	r := lock.Record{Guard: g}
	if len(s) < headLen+1 || s[0] != recordVersion {
		return r, errRecord
	}
	r.Status, r.Retry = intent.Status(s[1]-'0'), intent.Retry(s[2]-'0')
	r.Durable, r.Hot = (s[3]-'0')&flagDurable != 0, (s[3]-'0')&flagHot != 0
	fence, err := strconv.ParseUint(s[fenceAt:keyAt], 10, 64)
	if err != nil {
		return r, errRecord
	}
	r.Fence = fence
	copy(r.Key[:], s[keyAt:])
	copy(r.Fingerprint[:], s[fingerprintAt:])
	copy(r.ClaimID[:], s[claimAt:])
	tail := s[headLen:]
	if r.Status == intent.Started {
		if len(tail) < deadlineLen+1 {
			return r, errRecord
		}
		deadline, err := strconv.ParseInt(tail[:deadlineLen], 10, 64)
		if err != nil {
			return r, errRecord
		}
		r.Lease = time.Duration(deadline-now) * time.Millisecond
		tail = tail[deadlineLen:]
	}
	n := int(tail[0])
	if len(tail) < 1+n {
		return r, errRecord
	}
	r.Traceparent = tail[1 : 1+n]
	if receipt := tail[1+n:]; receipt != "" {
		r.Receipt = []byte(receipt)
	}
	return r, nil
}

func flags(durable, hot bool) byte {
	f := byte('0')
	if durable {
		f += flagDurable
	}
	if hot {
		f += flagHot
	}
	return f
}

func appendDecimal(b []byte, n uint64, digits int) []byte {
	s := strconv.FormatUint(n, 10)
	for range digits - len(s) {
		b = append(b, '0')
	}
	return append(b, s...)
}
