package downstream

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// readBody reads the whole body, decoded, and keeps it up to limit bytes. Of a longer one it
// keeps length and hash: memory stays bounded, also for a body that was compressed to
// nothing; time is bounded by the connection's deadline.
func (o *Observed) readBody(answer *http.Response, limit int64) error {
	if answer.Body == http.NoBody { // also where HEAD or 304 give the length of what does not come
		o.Body = []byte{}
		return nil
	}
	body := io.Reader(answer.Body)
	size := answer.ContentLength
	if encoding := strings.ToLower(strings.TrimSpace(answer.Header.Get("Content-Encoding"))); encoding == "gzip" || encoding == "x-gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return cut(err)
		}
		body, size = unpacked, -1
	}
	if size >= 0 && size <= limit {
		kept := make([]byte, size)
		if _, err := io.ReadFull(body, kept); err != nil {
			return cut(err)
		}
		o.Body = kept
		return nil
	}
	kept := make([]byte, 0, min(limit+1, 4<<10))
	for {
		if len(kept) == cap(kept) {
			grown := make([]byte, len(kept), min(int64(cap(kept))*2, limit+1))
			copy(grown, kept)
			kept = grown
		}
		n, err := body.Read(kept[len(kept):cap(kept)])
		kept = kept[:len(kept)+n]
		if int64(len(kept)) > limit {
			break
		}
		if err == io.EOF {
			o.Body = kept
			return nil
		}
		if err != nil {
			return cut(err)
		}
	}
	sum := sha256.New()
	sum.Write(kept)
	more, err := io.Copy(sum, body)
	if err != nil {
		return cut(err)
	}
	o.Truncated, o.Length = true, int64(len(kept))+more
	o.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// within returns the observation with a body over limit kept as its length and hash.
func (o Observed) within(limit int64) Observed {
	if int64(len(o.Body)) > limit {
		sum := sha256.Sum256(o.Body)
		o.Truncated, o.Length, o.SHA256, o.Body = true, int64(len(o.Body)), hex.EncodeToString(sum[:]), nil
	}
	return o
}

// cut makes an end before the end an error that says so.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
