package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

// maxMessageBytes is what the tests' broker takes.
const maxMessageBytes = 100_000

// A broker of the tests' own: nothing but loopback, and nothing of it left behind. It ends when its
// standard input does, also when the tests are killed.
const script = `
epmd -port "$ERL_EPMD_PORT" &
"$1" &
read -r _
kill -9 0`

const configFile = `listeners.tcp.1 = 127.0.0.1:%d
max_message_size = %d
log.console = true
log.console.level = warning
log.file = false
`

// broker is shared by the package's tests, which keep to queues of their own.
type broker struct {
	address string // host:port
	env     []string
	bin     string
	dir     string
	cmd     *exec.Cmd
	input   io.Closer
	output  *os.File
}

//nolint:gochecknoglobals // one broker for the package's tests: it takes seconds to start
var sharedBroker = sync.OnceValues(startBroker)

func TestMain(m *testing.M) {
	code := leaktest.Run(m, proxy.MayStay()...)
	if b, err := sharedBroker(); err == nil {
		if code != 0 {
			fmt.Fprintf(os.Stderr, "RabbitMQ:\n%s\n", b.said())
		}
		b.stop()
	}
	os.Exit(code)
}

func startBroker() (*broker, error) {
	bin := "/usr/lib/rabbitmq/bin" // Debian's place; what it has in PATH changes the user
	if _, err := os.Stat(filepath.Join(bin, "rabbitmq-server")); err != nil {
		program, err := exec.LookPath("rabbitmq-server")
		if err != nil {
			return nil, fmt.Errorf("this test needs RabbitMQ: run `make testtools`, or install Debian's package "+
				"rabbitmq-server (%w)", err)
		}
		bin = filepath.Dir(program)
	}
	dir, err := os.MkdirTemp("", "tidemark-rabbitmq-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string]string{
		"rabbitmq.conf": fmt.Sprintf(configFile, ports[0], maxMessageBytes),
		"plugins":       "[].", "env.conf": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	b := &broker{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), bin: bin, dir: dir}
	b.env = append(os.Environ(),
		"HOME="+dir, "RABBITMQ_NODENAME=tidemark-test-"+strconv.Itoa(ports[0])+"@localhost", "RABBITMQ_MNESIA_BASE="+
			filepath.Join(dir, "mnesia"),
		"RABBITMQ_LOG_BASE="+filepath.Join(dir, "log"), "RABBITMQ_LOGS=-", "RABBITMQ_CONFIG_FILE="+
			filepath.Join(dir, "rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+filepath.Join(dir, "none.config"), "RABBITMQ_CONF_ENV_FILE="+
			filepath.Join(dir, "env.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "plugins"), "RABBITMQ_GENERATED_CONFIG_DIR="+
			filepath.Join(dir, "config"),
		"RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"), "RABBITMQ_DIST_PORT="+strconv.Itoa(ports[1]),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -rabbit schedulers 1",
		"ERL_EPMD_PORT="+strconv.Itoa(ports[2]), "ERL_EPMD_ADDRESS=127.0.0.1")
	b.cmd = exec.Command("sh", "-c", script, "sh", filepath.Join(bin, "rabbitmq-server"))
	b.cmd.Env, b.cmd.Dir = b.env, dir
	if b.output, err = os.Create(filepath.Join(dir, "output")); err != nil {
		return nil, err
	}
	b.cmd.Stdout, b.cmd.Stderr = b.output, b.output
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if b.input, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if err := b.awaitStart(); err != nil {
		said := b.said()
		b.stop()
		return nil, fmt.Errorf("RabbitMQ does not start: %w\n%s", err, said)
	}
	return b, nil
}

func (b *broker) awaitStart() error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * time.Minute); ; <-tick.C {
		conn, err := amqp.Dial(b.url(b.address))
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (b *broker) stop() {
	_ = b.input.Close()
	_ = b.cmd.Wait() // it is killed
	_ = b.output.Close()
	if err := os.RemoveAll(b.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, err)
	}
}

// said answers what the broker has written.
func (b *broker) said() []byte {
	content, err := os.ReadFile(b.output.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return content
}

func (b *broker) url(address string) string { return "amqp://guest:guest@" + address + "/" }

// ctl runs rabbitmqctl on the broker.
func (b *broker) ctl(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "rabbitmqctl"), args...)
	cmd.Env, cmd.Dir = b.env, b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rabbitmqctl %q: %v\n%s", args, err, out)
	}
}

// running answers the broker, and starts it for the first test that needs it.
func running(t *testing.T) *broker {
	t.Helper()
	b, err := sharedBroker()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// freePorts answers ports that are different from each other.
func freePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		port, err := freeport.TCP(context.Background())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}
