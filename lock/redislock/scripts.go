package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed claim.lua
var claimSource string

//go:embed renew.lua
var renewSource string

//go:embed settle.lua
var settleSource string

//go:embed release.lua
var releaseSource string

//go:embed get.lua
var getSource string

//go:embed overdue.lua
var overdueSource string

var (
	claimScript   = newScript(claimSource)
	renewScript   = newScript(renewSource)
	settleScript  = newScript(settleSource)
	releaseScript = newScript(releaseSource)
	getScript     = newScript(getSource)
	overdueScript = newScript(overdueSource)
)

// Result codes, as the scripts give them; claim.lua's are lock.Code.
const (
	renewLost      = 0 // somebody else's, or no longer started
	renewRenewed   = 1
	renewRewritten = 2 // it was gone

	settleKept     = 0 // what stands was not superseded
	settleWrote    = 1
	settleRefilled = 2 // wrote, where there was nothing

	releaseNothing  = 0 // there was no record, or one that ended and is stored
	releaseReleased = 1
	releaseAnothers = 2 // somebody else's, or no longer started: still to be watched over

	getNone  = 0
	getFound = 1
)

type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// call is one run of a script within an op. Its result is read after the op is done.
type call struct {
	script *script
	key    string
	args   []any
	cmd    *redis.Cmd
}

func (s *script) on(key string, args ...any) *call { return &call{script: s, key: key, args: args} }

func (c *call) evalsha(ctx context.Context) redis.Cmder { return c.make(ctx, "evalsha", c.script.sha) }

func (c *call) eval(ctx context.Context) redis.Cmder { return c.make(ctx, "eval", c.script.source) }

func (c *call) make(ctx context.Context, name, body string) redis.Cmder {
	args := make([]any, 0, 4+len(c.args))
	args = append(args, name, body, 1, c.key)
	c.cmd = redis.NewCmd(ctx, append(args, c.args...)...)
	c.cmd.SetFirstKeyPos(3) // a cluster routes by it
	return once{c.cmd}
}

// unloaded says that the script was not run because Redis does not have it: it restarted,
// failed over, or was told SCRIPT FLUSH. Running it with its source is not a repetition.
func (c *call) unloaded() bool {
	err := c.cmd.Err()
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// reply returns the call's reply: the code, Redis' clock in ms, and a record if it has one.
func (c *call) reply() (code, now int64, record string, err error) {
	v, err := c.cmd.Slice()
	if err != nil {
		return 0, 0, "", err
	}
	ok := len(v) == 2 || len(v) == 3
	if ok {
		code, ok = v[0].(int64)
	}
	if ok {
		now, ok = v[1].(int64)
	}
	if ok && len(v) == 3 {
		record, ok = v[2].(string)
	}
	if !ok {
		return 0, 0, "", fmt.Errorf("redislock: a reply of another form: %T", v)
	}
	return code, now, record, nil
}

// once is a command that go-redis must not send again by itself. A lost reply does not tell
// whether the script ran; the caller of this package knows what that means and go-redis
// does not. MOVED is still followed: it says that nothing ran.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }
