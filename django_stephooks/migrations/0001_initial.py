import django.db.models.deletion
import django_stephooks.models.fields
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('contenttypes', '0002_remove_content_type_name'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Sweep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('last_swept_at', models.DateTimeField(verbose_name='last swept at')),
            ],
            options={
                'verbose_name': 'sweep',
                'verbose_name_plural': 'sweeps',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public id')),
                ('workflow', models.CharField(max_length=200, verbose_name='workflow')),
                ('queue', models.CharField(max_length=100, verbose_name='queue')),
                ('key', models.CharField(blank=True, max_length=200, null=True, verbose_name='idempotency key')),
                ('status', models.CharField(choices=[('pending', 'pending'), ('running', 'running'), ('suspended', 'suspended'), ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')], default='pending', max_length=10, verbose_name='status')),
                ('turn', models.PositiveIntegerField(default=0, verbose_name='turn')),
                ('recoveries', models.PositiveIntegerField(default=0, verbose_name='recoveries')),
                ('max_recoveries', models.PositiveIntegerField(default=3, verbose_name='recoveries allowed')),
                ('due_at', models.DateTimeField(blank=True, null=True, verbose_name='due at')),
                ('arguments', django_stephooks.models.fields.RecordField(verbose_name='arguments')),
                ('result', django_stephooks.models.fields.RecordField(null=True, verbose_name='result')),
                ('error', django_stephooks.models.fields.RecordField(null=True, verbose_name='error')),
                ('created_at', models.DateTimeField(verbose_name='created at')),
                ('finished_at', models.DateTimeField(blank=True, null=True, verbose_name='finished at')),
                ('subject_id', models.CharField(blank=True, max_length=64, null=True)),
                ('started_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='started by')),
                ('subject_type', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='contenttypes.contenttype')),
            ],
            options={
                'verbose_name': 'run',
                'verbose_name_plural': 'runs',
                'permissions': [('start_run', 'Can start runs'), ('cancel_run', 'Can cancel runs'), ('retry_run', 'Can retry failed runs')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Hook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public id')),
                ('call', models.CharField(max_length=400, verbose_name='call')),
                ('name', models.CharField(max_length=100, verbose_name='name')),
                ('status', models.CharField(choices=[('pending', 'pending'), ('received', 'received'), ('expired', 'expired'), ('cancelled', 'cancelled')], default='pending', max_length=10, verbose_name='status')),
                ('title', models.CharField(blank=True, max_length=500, verbose_name='title')),
                ('description', models.TextField(blank=True, verbose_name='description')),
                ('context', django_stephooks.models.fields.RecordField(null=True, verbose_name='context')),
                ('reviewers', django_stephooks.models.fields.RecordField(null=True, verbose_name='reviewers')),
                ('schema', models.CharField(blank=True, max_length=300, verbose_name='payload schema')),
                ('on_timeout', models.CharField(choices=[('raise', 'raise an error'), ('return', 'go on without an answer'), ('suspend', 'keep waiting')], default='raise', max_length=7, verbose_name='at the deadline')),
                ('created_at', models.DateTimeField(verbose_name='asked at')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='deadline')),
                ('notified_at', models.DateTimeField(blank=True, null=True, verbose_name='notified at')),
                ('settled_at', models.DateTimeField(blank=True, null=True, verbose_name='settled at')),
                ('payload', django_stephooks.models.fields.RecordField(null=True, verbose_name='payload')),
                ('answered_by_label', models.CharField(blank=True, max_length=200, verbose_name='answered by')),
                ('channel', models.CharField(blank=True, max_length=20, verbose_name='channel')),
                ('token_version', models.PositiveIntegerField(default=1, verbose_name='token version')),
                ('race', models.CharField(blank=True, editable=False, max_length=400, null=True, verbose_name='race')),
                ('answered_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='answered by')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hooks', to='django_stephooks.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'hook',
                'verbose_name_plural': 'hooks',
                'permissions': [('review_hook', 'Can answer hooks'), ('review_any_hook', 'Can answer hooks assigned to others')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(choices=[('run_started', 'run started'), ('run_suspended', 'run suspended'), ('run_resumed', 'run resumed'), ('run_recovered', 'run recovered'), ('run_completed', 'run completed'), ('run_failed', 'run failed'), ('run_cancelled', 'run cancelled'), ('run_retried', 'run retried'), ('step_started', 'step started'), ('step_completed', 'step completed'), ('step_failed', 'step failed'), ('step_retrying', 'step retrying'), ('step_warned', 'step warned'), ('once_completed', 'once completed'), ('timer_started', 'timer started'), ('hook_created', 'hook created'), ('hook_received', 'hook received'), ('hook_expired', 'hook expired'), ('hook_cancelled', 'hook cancelled'), ('hook_reopened', 'hook reopened'), ('links_revoked', 'links revoked')], max_length=20, verbose_name='type')),
                ('call', models.CharField(blank=True, max_length=400, verbose_name='call')),
                ('data', django_stephooks.models.fields.RecordField(default=dict, verbose_name='data')),
                ('created_at', models.DateTimeField(verbose_name='at')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='django_stephooks.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'event',
                'verbose_name_plural': 'events',
                'ordering': ['pk'],
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Chunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='number')),
                ('kind', models.CharField(max_length=10, verbose_name='kind')),
                ('data', models.TextField(verbose_name='data')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='django_stephooks.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'chunk',
                'verbose_name_plural': 'chunks',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StepCheckpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('call', models.CharField(max_length=400, verbose_name='call')),
                ('data', django_stephooks.models.fields.CompressedRecordField(verbose_name='data')),
                ('emitted', models.PositiveIntegerField(db_default=0, default=0, verbose_name='emitted')),
                ('saved_at', models.DateTimeField(verbose_name='saved at')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='django_stephooks.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'step checkpoint',
                'verbose_name_plural': 'step checkpoints',
                'default_permissions': (),
            },
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['queue', 'due_at'], name='stephooks_run_ready'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status', 'running'), models.Q(('due_at__isnull', False), ('status', 'suspended')), _connector='OR'), fields=['status', 'due_at', 'id'], name='stephooks_run_due_at'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status__in', ('failed', 'cancelled'))), fields=['status', 'id'], name='stephooks_run_ended'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('subject_id__isnull', False)), fields=['subject_type', 'subject_id'], name='stephooks_run_subject'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('workflow', 'key'), name='stephooks_run_key'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('due_at', None), ('status__in', ('completed', 'failed', 'cancelled'))), models.Q(('due_at__isnull', False), ('status__in', ('pending', 'running'))), ('status', 'suspended'), _connector='OR'), name='stephooks_run_due'),
        ),
        migrations.AddIndex(
            model_name='hook',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['expires_at', 'id'], name='stephooks_hook_waiting'),
        ),
        migrations.AddIndex(
            model_name='hook',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('on_timeout__in', ('raise', 'return')), ('status', 'pending')), fields=['expires_at', 'id', 'run'], name='stephooks_hook_deadline'),
        ),
        migrations.AddIndex(
            model_name='hook',
            index=models.Index(condition=models.Q(('status__in', ('expired', 'cancelled'))), fields=['status', 'id'], name='stephooks_hook_ended'),
        ),
        migrations.AddConstraint(
            model_name='hook',
            constraint=models.UniqueConstraint(fields=('run', 'call'), name='stephooks_hook_call'),
        ),
        migrations.AddConstraint(
            model_name='hook',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('settled_at', None), ('status', 'pending')), models.Q(('settled_at__isnull', False), ('status__in', ('received', 'expired', 'cancelled'))), _connector='OR'), name='stephooks_hook_settled'),
        ),
        migrations.AddConstraint(
            model_name='chunk',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='stephooks_chunk_number'),
        ),
        migrations.AddConstraint(
            model_name='stepcheckpoint',
            constraint=models.UniqueConstraint(fields=('run', 'call'), name='stephooks_checkpoint_call'),
        ),
    ]
